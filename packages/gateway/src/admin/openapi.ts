import { z } from 'zod';
import type { EndpointAnswer, Endpoint } from './endpoint.ts';
import { PROBLEMS, type ProblemCode } from './problems.ts';
import { problem } from './schemas.ts';

type Json = Readonly<Record<string, unknown>>;

const PROBLEM_TYPE = 'application/problem+json';

/** The table of endpoints as an OpenAPI 3.1 document, whose schemas are JSON Schema. */
export function openApiDocument(endpoints: readonly Endpoint[], version: string): Json {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Spillgate admin API',
      version,
      description: 'Health, metrics, configuration and the state of single keys of a running gateway.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    paths: pathsOf(endpoints),
    components: {
      schemas: { Problem: schemaOf(problem, 'output') },
      securitySchemes: {
        token: {
          type: 'http',
          scheme: 'bearer',
          description: 'The setting `admin.token`; not needed where there is none.',
        },
      },
    },
  };
}

function pathsOf(endpoints: readonly Endpoint[]): Json {
  const paths = new Map<string, Record<string, unknown>>();
  for (const endpoint of endpoints) {
    const item = paths.get(endpoint.path) ?? {};
    item[endpoint.method.toLowerCase()] = operationOf(endpoint);
    paths.set(endpoint.path, item);
  }
  return Object.fromEntries(paths);
}

function operationOf(endpoint: Endpoint): Json {
  const { id, summary, access, body, answers } = endpoint;
  return {
    operationId: id,
    summary,
    security: access === 'token' ? [{ token: [] }] : [],
    parameters: [...pathParameters(endpoint.path), ...queryParameters(endpoint)],
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content: { 'application/json': { schema: schemaOf(body, 'input') } },
          },
        }),
    responses: {
      ...Object.fromEntries(Object.entries(answers).map(([status, answer]) => [status, responseOf(answer)])),
      ...problemResponses(endpoint),
    },
  };
}

function responseOf({ description, schema, contentType }: EndpointAnswer): Json {
  const [mediaType = contentType] = contentType.split(';');
  return {
    description,
    content: {
      [mediaType]: { schema: schema === undefined ? { type: 'string' } : schemaOf(schema, 'output') },
    },
  };
}

/** Problems of one status share a response. */
function problemResponses(endpoint: Endpoint): Json {
  const byStatus = new Map<number, ProblemCode[]>();
  for (const code of problemsOf(endpoint)) {
    const { status } = PROBLEMS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      status,
      {
        description: codes.map((code) => `${PROBLEMS[code].title} (\`${code}\`).`).join(' '),
        content: { [PROBLEM_TYPE]: { schema: { $ref: '#/components/schemas/Problem' } } },
      },
    ]),
  );
}

/** Every problem that an endpoint can answer with. */
export function problemsOf({ access, method, problems }: Endpoint): readonly ProblemCode[] {
  return [
    'INVALID_REQUEST',
    ...(access === 'token' ? (['TOKEN_REQUIRED', 'TOO_MANY_FAILURES'] as const) : []),
    ...(access === 'open' ? [] : (['MISDIRECTED_HOST'] as const)),
    ...(method === 'GET' ? [] : (['CROSS_SITE', 'BODY_TOO_LARGE'] as const)),
    ...(method === 'POST' || method === 'PUT' ? (['UNSUPPORTED_MEDIA_TYPE'] as const) : []),
    ...problems,
    'INTERNAL',
  ];
}

function pathParameters(path: string): readonly Json[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string', minLength: 1 },
  }));
}

function queryParameters({ query }: Endpoint): readonly Json[] {
  return Object.entries(query?.shape ?? {}).map(([name, schema]) => ({
    name,
    in: 'query',
    required: false,
    schema: schemaOf(schema, 'input'),
  }));
}

function schemaOf(schema: z.core.$ZodType, io: 'input' | 'output'): Json {
  const { $schema: _dialect, '~standard': _standard, ...rest } = z.toJSONSchema(schema, { io });
  return rest;
}
