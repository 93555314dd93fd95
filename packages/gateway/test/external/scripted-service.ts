// A service without sockets: for questions of time and order.
import {
  type FailureReason,
  type ServiceRequest,
  type ServiceAnswer,
  type ServiceClient,
  ServiceFailure,
} from '../../src/external/service/service.ts';

export interface ScriptedService extends ServiceClient {
  readonly asked: ServiceRequest[];
  readonly peak: () => number;
  /** Changes what it says from now on. */
  answer: (request: ServiceRequest) => Promise<ServiceAnswer>;
}

export function says(value: unknown, cacheControl?: string): Promise<ServiceAnswer> {
  const cacheHeaders =
    cacheControl === undefined
      ? undefined
      : { cacheControl: [cacheControl], expires: [], date: undefined, age: undefined };
  return Promise.resolve({ value, cacheHeaders });
}

export async function fails(reason: FailureReason = 'status', retryAfterMs = 0): Promise<ServiceAnswer> {
  return Promise.reject(new ServiceFailure(reason, 'as it was told', { retryAfterMs }));
}

export function scriptedService(answer: ScriptedService['answer']): ScriptedService {
  const asked: ServiceRequest[] = [];
  let underWay = 0;
  let peak = 0;
  const service: ScriptedService = {
    id: 'scripted',
    asked,
    peak: () => peak,
    answer,
    ask: async (request) => {
      asked.push(request);
      underWay += 1;
      peak = Math.max(peak, underWay);
      try {
        return await service.answer(request);
      } finally {
        underWay -= 1;
      }
    },
    close: async () => Promise.resolve(),
  };
  return service;
}
