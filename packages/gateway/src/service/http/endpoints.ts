import { z } from 'zod';
import { openApiDocument, operationOf, type OpenApiPart } from '../../api/open-api.ts';
import { FORWARD_AUTH_ENDPOINTS } from '../forward-auth/forward-auth-endpoints.ts';
import { JSON_RLS_ENDPOINT } from '../rls/rls-answer.ts';
import { jsonReply, type ServiceEndpoint, SERVICE_PROBLEMS, type ServiceProblemCode } from './call.ts';
import { CHECK_ENDPOINTS } from './check-endpoints.ts';

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

const problemSchema = z.strictObject({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string().meta({ description: 'The value, what was expected, and what to do.' }),
  code: z.enum(Object.keys(SERVICE_PROBLEMS)),
});

const SECURITY_SCHEMES = {
  token: {
    type: 'http',
    scheme: 'bearer',
    description: 'The setting `service.token`; not needed where there is none.',
  },
  proxyToken: {
    type: 'apiKey',
    in: 'header',
    name: 'X-Spillgate-Token',
    description: 'The same for proxies, whose `Authorization` is that of their client.',
  },
};

function serviceOpenApi(endpoints: readonly ServiceEndpoint[], version: string): OpenApiPart {
  return openApiDocument({
    title: 'Spillgate decision service',
    version,
    description: 'Decisions about rate limits for applications in any language.',
    paths: Object.fromEntries(endpoints.map((endpoint) => [endpoint.path, pathItem(endpoint)])),
    problem: problemSchema,
    securitySchemes: SECURITY_SCHEMES,
  });
}

function pathItem(endpoint: ServiceEndpoint): OpenApiPart {
  const { id, summary, access, body, answers } = endpoint;
  const methods = endpoint.method === 'ANY' ? ['get', 'post'] : [endpoint.method.toLowerCase()];
  return Object.fromEntries(
    methods.map((method) => [
      method,
      operationOf(SERVICE_PROBLEMS, {
        operationId: methods.length === 1 ? id : `${id}-${method}`,
        summary,
        scheme: access === 'token' ? 'token' : access === 'proxy' ? 'proxyToken' : undefined,
        body,
        answers,
        problems: problemsOf(endpoint),
      }),
    ]),
  );
}

function problemsOf({ access, body, problems }: ServiceEndpoint): readonly ServiceProblemCode[] {
  return [
    ...problems,
    ...(access === 'open' ? [] : (['TOKEN_REQUIRED', 'TOO_MANY_FAILURES'] as const)),
    ...(body === undefined ? [] : (['INVALID_REQUEST', 'BODY_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE'] as const)),
    'INTERNAL',
  ];
}
