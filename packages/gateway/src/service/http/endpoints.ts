import { z } from 'zod';
import { FORWARD_AUTH_ENDPOINTS } from '../forward-auth/forward-auth-endpoints.ts';
import { JSON_RLS_ENDPOINT } from '../rls/rls-answer.ts';
import {
  jsonReply,
  type ServiceEndpoint,
  type DescribedAnswer,
  SERVICE_PROBLEMS,
  type ServiceProblemCode,
} from './call.ts';
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

type OpenApiPart = Readonly<Record<string, unknown>>;

const problemSchema = z.strictObject({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string().meta({ description: 'The value, what was expected, and what to do.' }),
  code: z.enum(Object.keys(SERVICE_PROBLEMS)),
});

/** The table of endpoints as an OpenAPI 3.1 document. */
function serviceOpenApi(endpoints: readonly ServiceEndpoint[], version: string): OpenApiPart {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Spillgate decision service',
      version,
      description: 'Decisions about rate limits for applications in any language.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    paths: Object.fromEntries(endpoints.map((endpoint) => [endpoint.path, pathItem(endpoint)])),
    components: {
      schemas: { Problem: schemaOf(problemSchema, 'output') },
      securitySchemes: {
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
      },
    },
  };
}

function pathItem(endpoint: ServiceEndpoint): OpenApiPart {
  const methods = endpoint.method === 'ANY' ? ['get', 'post'] : [endpoint.method.toLowerCase()];
  return Object.fromEntries(
    methods.map((method) => [
      method,
      operationOf(endpoint, methods.length === 1 ? endpoint.id : `${endpoint.id}-${method}`),
    ]),
  );
}

function operationOf(
  { summary, access, body, answers, problems }: ServiceEndpoint,
  operationId: string,
): OpenApiPart {
  return {
    operationId,
    summary,
    security: access === 'token' ? [{ token: [] }] : access === 'proxy' ? [{ proxyToken: [] }] : [],
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content: { 'application/json': { schema: schemaOf(body, 'input') } },
          },
        }),
    responses: {
      ...problemResponses([
        ...problems,
        ...(access !== 'open' ? (['TOKEN_REQUIRED', 'TOO_MANY_FAILURES'] as const) : []),
        ...(body === undefined
          ? []
          : (['INVALID_REQUEST', 'BODY_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE'] as const)),
        'INTERNAL',
      ]),
      ...Object.fromEntries(Object.entries(answers).map(([status, answer]) => [status, responseOf(answer)])),
    },
  };
}

function responseOf({ description, schema }: DescribedAnswer): OpenApiPart {
  const content =
    schema === undefined
      ? { 'text/plain': { schema: { type: 'string' } } }
      : { 'application/json': { schema: schemaOf(schema, 'output') } };
  return { description, content };
}

/** Problems of one status share a response. */
function problemResponses(codes: readonly ServiceProblemCode[]): OpenApiPart {
  const byStatus = new Map<number, ServiceProblemCode[]>();
  for (const code of codes) {
    const { status } = SERVICE_PROBLEMS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, ofStatus]) => [
      status,
      {
        description: ofStatus.map((code) => `${SERVICE_PROBLEMS[code].title} (\`${code}\`).`).join(' '),
        content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
      },
    ]),
  );
}

function schemaOf(schema: z.core.$ZodType, io: 'input' | 'output'): OpenApiPart {
  const { $schema: _dialect, '~standard': _standard, ...rest } = z.toJSONSchema(schema, { io });
  return rest;
}
