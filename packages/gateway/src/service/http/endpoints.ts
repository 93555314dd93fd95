import { z } from 'zod';
import { jsonReply } from './call.ts';
import { CHECK_ENDPOINTS } from './check-endpoints.ts';
import { FORWARD_AUTH_ENDPOINTS } from '../forward-auth/forward-auth-endpoints.ts';
import { JSON_RLS_ENDPOINT } from '../rls/rls-json-endpoint.ts';
import type { ServiceEndpoint } from './endpoint.ts';
import { serviceOpenApi } from './open-api.ts';

/** The one table of the service's HTTP endpoints. */
export const SERVICE_ENDPOINTS: readonly ServiceEndpoint[] = [
  ...CHECK_ENDPOINTS,
  ...FORWARD_AUTH_ENDPOINTS,
  JSON_RLS_ENDPOINT,
  {
    id: 'healthcheck',
    method: 'GET',
    path: '/healthcheck',
    summary: 'Whether a decision can be made now: `OK`, or a 500 that says why not.',
    access: 'open',
    answers: {
      200: { description: '`OK`', schema: undefined },
      500: { description: 'It drains, or the store cannot decide.', schema: undefined },
    },
    problems: [],
    async handle(_, { storeProblem, draining }) {
      const problem = draining() ? 'draining' : await storeProblem();
      return { status: problem === undefined ? 200 : 500, contentType: 'text/plain', body: problem ?? 'OK' };
    },
  },
  {
    id: 'openapi',
    method: 'GET',
    path: '/openapi.json',
    summary: 'This API as an OpenAPI 3.1 document.',
    access: 'open',
    answers: { 200: { description: 'The document.', schema: z.record(z.string(), z.unknown()) } },
    problems: [],
    handle: (_, { version }) => jsonReply(serviceOpenApi(SERVICE_ENDPOINTS, version)),
  },
];
