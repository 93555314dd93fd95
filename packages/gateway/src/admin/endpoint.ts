import type { z } from 'zod';
import type { Metrics } from '../telemetry/metrics.ts';
import { complaintOf } from './complaint.ts';
import type { Operated } from './operated.ts';
import type { Overrides } from './overrides.ts';
import { AdminProblem, type ProblemCode } from './problems.ts';

/** `open`: anybody. `host`: the Host has to be allowed. `token`: the token too, where one is configured. */
export type Access = 'open' | 'host' | 'token';

/** What endpoints show and change. */
export interface AdminParts {
  readonly operated: Operated;
  readonly metrics: AdminMetrics;
  readonly overrides: Overrides;
  readonly version: string;
}

/** Where there are workers, somebody sums up what these have. */
export interface AdminMetrics extends Pick<Metrics, 'contentType' | 'text'> {
  summary(): ReturnType<Metrics['summary']> | Promise<ReturnType<Metrics['summary']>>;
}

export interface Call {
  /** What stands in the places of the path, decoded. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  readonly body: unknown;
}

export interface Reply {
  readonly status: number;
  readonly body: string;
  readonly contentType: string;
}

export interface Answer {
  readonly description: string;
  /** Undefined: the answer is no JSON. */
  readonly schema: z.ZodType | undefined;
  readonly contentType: string;
}

type QuerySchema = z.ZodObject<Readonly<Record<string, z.ZodType>>>;

/** One line of the table that routing, the OpenAPI document and the reference page come from. */
export interface Endpoint {
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** `/v1/keys/{policy}/{key}` */
  readonly path: string;
  readonly summary: string;
  readonly access: Access;
  /** A query can ask for more than everybody may see. */
  accessFor(query: Readonly<Record<string, string>>): Access;
  readonly query: QuerySchema | undefined;
  readonly body: z.ZodType | undefined;
  readonly answers: Readonly<Record<number, Answer>>;
  readonly problems: readonly ProblemCode[];
  run(call: Call, parts: AdminParts): Promise<Reply>;
}

interface Definition<Query, Body> {
  readonly id: string;
  readonly method: Endpoint['method'];
  readonly path: string;
  readonly summary: string;
  readonly access: Access;
  readonly accessFor?: Endpoint['accessFor'];
  readonly query?: QuerySchema & z.ZodType<Query>;
  readonly body?: z.ZodType<Body>;
  readonly answers: Readonly<Record<number, Answer>>;
  readonly problems?: readonly ProblemCode[];
  handle(call: Asked<Query, Body>, parts: AdminParts): Result | Promise<Result>;
}

export interface Asked<Query, Body> {
  readonly parameters: Readonly<Record<string, string>>;
  readonly query: Query;
  readonly body: Body;
}

export interface Result {
  readonly status: number;
  /** Text as it is where the answer has no schema; else what becomes JSON. */
  readonly value: unknown;
}

/** An endpoint that checks what it gets and what it gives. */
export function endpoint<Query = unknown, Body = undefined>(definition: Definition<Query, Body>): Endpoint {
  const { access, accessFor = () => access, query, body, answers, problems = [] } = definition;
  return {
    ...definition,
    accessFor,
    query,
    body,
    problems,
    async run(call, parts) {
      const asked: Asked<Query, Body> = {
        parameters: call.parameters,
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- without a schema nobody reads it
        query: (query === undefined ? {} : accept('query', query, call.query)) as Query,
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same
        body: (body === undefined ? undefined : accept('body', body, call.body)) as Body,
      };
      const { status, value } = await definition.handle(asked, parts);
      return replyOf(answers[status], status, value);
    },
  };
}

export function json(description: string, schema: z.ZodType): Answer {
  return { description, schema, contentType: 'application/json' };
}

function replyOf(answer: Answer | undefined, status: number, value: unknown): Reply {
  if (answer === undefined) throw new Error(`an endpoint answered ${status}, which it does not describe`);
  const { schema, contentType } = answer;
  if (schema === undefined) return { status, body: String(value), contentType };
  return { status, body: `${JSON.stringify(schema.parse(value))}\n`, contentType };
}

function accept<Output>(place: 'body' | 'query', schema: z.ZodType<Output>, value: unknown): Output {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new AdminProblem('INVALID_REQUEST', complaintOf({ place, value, schema }, parsed.error.issues));
}
