import { z } from 'zod';
import type { DescribedAnswer, ServiceEndpoint } from './endpoint.ts';
import { SERVICE_PROBLEMS, type ServiceProblemCode } from './service-problem.ts';

type OpenApiPart = Readonly<Record<string, unknown>>;

const problemSchema = z.strictObject({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string().meta({ description: 'The value, what was expected, and what to do.' }),
  code: z.enum(Object.keys(SERVICE_PROBLEMS)),
});

/** The table of endpoints as an OpenAPI 3.1 document. */
export function serviceOpenApi(endpoints: readonly ServiceEndpoint[], version: string): OpenApiPart {
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
