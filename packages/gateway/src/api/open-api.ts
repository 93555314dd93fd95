// Tables of endpoints as OpenAPI 3.1 documents, whose schemas are JSON Schema.
import { z } from 'zod';
import type { ProblemTable } from './problem.ts';

export type OpenApiPart = Readonly<Record<string, unknown>>;

export interface EndpointAnswer {
  readonly description: string;
  /** Undefined: the response is not JSON. */
  readonly schema: z.ZodType | undefined;
  /** Default: JSON where there is a schema, else plain text. */
  readonly contentType?: string | undefined;
}

interface ApiDescription {
  readonly title: string;
  readonly description: string;
  readonly version: string;
  readonly paths: OpenApiPart;
  readonly problem: z.ZodType;
  readonly securitySchemes: OpenApiPart;
}

export function openApiDocument(api: ApiDescription): OpenApiPart {
  const { title, version, description, paths, problem, securitySchemes } = api;
  return {
    openapi: '3.1.0',
    info: {
      title,
      version,
      description,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    paths,
    components: { schemas: { Problem: schemaOf(problem, 'output') }, securitySchemes },
  };
}

interface DescribedOperation<Code extends string> {
  readonly operationId: string;
  readonly summary: string;
  /** The scheme that lets a caller in; undefined: everybody. */
  readonly scheme: string | undefined;
  readonly parameters?: readonly OpenApiPart[];
  readonly body: z.ZodType | undefined;
  readonly answers: Readonly<Record<number, EndpointAnswer>>;
  readonly problems: readonly Code[];
}

/** One method of one path. Where an answer and a problem have the same status, the answer is described. */
export function operationOf<Code extends string>(
  table: ProblemTable<Code>,
  { operationId, summary, scheme, parameters, body, answers, problems }: DescribedOperation<Code>,
): OpenApiPart {
  return {
    operationId,
    summary,
    security: scheme === undefined ? [] : [{ [scheme]: [] }],
    parameters,
    requestBody:
      body === undefined
        ? undefined
        : { required: true, content: { 'application/json': { schema: schemaOf(body, 'input') } } },
    responses: {
      ...problemResponses(table, problems),
      ...Object.fromEntries(Object.entries(answers).map(([status, answer]) => [status, responseOf(answer)])),
    },
  };
}

function responseOf({ description, schema, contentType }: EndpointAnswer): OpenApiPart {
  const [mediaType] = (contentType ?? (schema === undefined ? 'text/plain' : 'application/json')).split(';');
  return {
    description,
    content: {
      [mediaType ?? '']: { schema: schema === undefined ? { type: 'string' } : schemaOf(schema, 'output') },
    },
  };
}

/** Problems of one status share a response. */
function problemResponses<Code extends string>(
  table: ProblemTable<Code>,
  codes: readonly Code[],
): OpenApiPart {
  const byStatus = new Map<number, Code[]>();
  for (const code of codes) {
    const { status } = table[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, ofStatus]) => [
      status,
      {
        description: ofStatus.map((code) => `${table[code].title} (\`${code}\`).`).join(' '),
        content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
      },
    ]),
  );
}

export function schemaOf(schema: z.core.$ZodType, io: 'input' | 'output'): OpenApiPart {
  const { $schema: _dialect, '~standard': _standard, ...rest } = z.toJSONSchema(schema, { io });
  return rest;
}
