import { defineEndpoint, json, type Endpoint } from '../endpoint.ts';
import { liveSample } from './live-sample.ts';

export const LIVE_ENDPOINTS: readonly Endpoint[] = [
  defineEndpoint({
    id: 'live',
    method: 'GET',
    path: '/v1/live',
    summary:
      'What the gateway does, as server-sent events: `history` once, then a `sample` every second. Counters go up from the start of the gateway.',
    access: 'token',
    answers: { 200: { description: 'The events.', schema: undefined, contentType: 'text/event-stream' } },
    problems: ['TOO_MANY_WATCHERS'],
    handle: (_, { live }) => ({ status: 200, value: '', stream: live.join() }),
  }),
  defineEndpoint({
    id: 'sample',
    method: 'GET',
    path: '/v1/live/sample',
    summary: 'One sample of `GET /v1/live`.',
    access: 'token',
    answers: { 200: json('The sample.', liveSample) },
    handle: async (_, { live }) => ({ status: 200, value: await live.sample() }),
  }),
];
