import { randomUUID } from 'node:crypto';
import type { FinishedRequest } from '../telemetry/traffic.ts';

/** CloudEvents 1.0 in JSON (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md). */
export interface UsageEvent {
  readonly specversion: '1.0';
  /** Stays the same if it is sent again: who counts an id once counts each request once. */
  readonly id: string;
  readonly source: string;
  readonly type: 'spillgate.request.finished';
  readonly time: string;
  readonly datacontenttype: 'application/json';
  readonly data: UsageData;
}

interface UsageData {
  readonly requestId: string;
  readonly outcome: FinishedRequest['outcome'];
  readonly reason: string | undefined;
  readonly rule: string | undefined;
  /** Whom the request was counted for, and by which policy. */
  readonly counted: readonly { readonly policy: string; readonly key: string }[];
  readonly method: string;
  readonly host: string;
  readonly path: string;
  readonly status: number | undefined;
  readonly clientAddress: string | undefined;
  readonly bytesReceived: number;
  readonly bytesSent: number;
  readonly durationMs: number;
  /** What it was charged: 0 where no policy charged it. */
  readonly cost: number;
  /** Not all of that is known: some is estimated. */
  readonly costEstimated: boolean;
}

export function usageEvent(request: FinishedRequest, source: string): UsageEvent {
  return {
    specversion: '1.0',
    id: randomUUID(),
    source,
    type: 'spillgate.request.finished',
    time: new Date().toISOString(),
    datacontenttype: 'application/json',
    data: {
      requestId: request.id,
      outcome: request.outcome,
      reason: request.reason,
      rule: request.rule,
      counted: (request.counted ?? []).map(({ policy, key }) => ({ policy, key })),
      method: request.method,
      host: request.host,
      path: request.path,
      status: request.status,
      clientAddress: request.clientAddress,
      bytesReceived: request.bytesReceived,
      bytesSent: request.bytesSent,
      durationMs: Math.round(request.durationMs * 1000) / 1000,
      cost: request.cost?.cost ?? (request.charged === true ? 1 : 0),
      costEstimated: request.cost?.estimated ?? false,
    },
  };
}
