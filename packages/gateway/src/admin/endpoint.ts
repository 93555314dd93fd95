import type { ServerResponse } from 'node:http';
import { z } from 'zod';
import type { EndpointAnswer } from '../api/open-api.ts';
import { valueAt, type Path } from '../config/path.ts';
import { shown, shownName } from '../config/shown.ts';
import { nearest } from '../config/suggestion.ts';
import type { FleetView } from '../fleet/fleet-view.ts';
import type { MetricSeries } from '../telemetry/metric.ts';
import type { TrafficSummary } from '../telemetry/traffic-tally.ts';
import type { GatewayControl } from './control.ts';
import type { LiveHub } from './live/live-hub.ts';
import { AdminProblem, type ProblemCode } from './problems.ts';
import type { AdminSession, OpenedSession } from './sessions.ts';

/** `open`: anyone. `host`: the Host has to be allowed. `token`: the token too, where one is configured. */
export type Access = 'open' | 'host' | 'token';

/** What endpoints show and change. */
export interface AdminParts {
  readonly control: GatewayControl;
  readonly metrics: AdminMetrics;
  readonly fleet: FleetView;
  readonly live: LiveHub;
  readonly version: string;
}

/** With several workers, the sum of what they have. */
export interface AdminMetrics {
  /** Everything, as Prometheus reads it. */
  readonly text: () => Promise<string>;
  readonly traffic: { summary(): TrafficSummary | Promise<TrafficSummary> };
  /** The series of single metrics, by name; nothing for names that there are not. */
  readonly read: (names: readonly string[]) => Promise<readonly MetricSeries[]>;
}

export interface AdminCall {
  /** What stands in the places of the path, decoded. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  readonly body: unknown;
  readonly caller: AdminCaller;
}

/** `operator`: sees and changes. `reader`: sees everything, and changes nothing. */
export type AdminRole = 'operator' | 'reader';

/** By what a request was let in, and what it may do with its session. */
export interface AdminCaller {
  readonly via: 'open' | 'token' | 'session';
  readonly role: AdminRole;
  readonly session?: AdminSession | undefined;
  /** Opens a session with the token that the request showed. */
  open(): OpenedSession;
  /** Ends its session; answers the cookie that is none. */
  close(): string;
}

/** Where nobody is asked who they are, nobody opens a session. */
export const NO_CALLER: AdminCaller = {
  via: 'open',
  role: 'operator',
  open: () => {
    throw new Error('there is no token to open a session with');
  },
  close: () => '',
};

export interface AdminReply {
  readonly status: number;
  readonly body: string;
  readonly contentType: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Writes the body bit by bit instead, until one side ends it. */
  readonly stream?: ((response: ServerResponse) => void) | undefined;
  readonly change?: RecordedChange | undefined;
}

/** For the log: what something was, and what it is now. */
export interface RecordedChange {
  readonly before: unknown;
  readonly after: unknown;
}

/** What a request does: it only asks, it is about the session of its browser, or it changes the gateway. */
type Effect = 'none' | 'session' | 'change';

type QuerySchema = z.ZodObject<Readonly<Record<string, z.ZodType>>>;

/** One line of the table that routing, the OpenAPI document and the reference page come from. */
export interface Endpoint {
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** `/v1/keys/{policy}/{key}` */
  readonly path: string;
  readonly summary: string;
  readonly access: Access;
  readonly effect: Effect;
  /** A query can ask for more than everyone may see. */
  accessFor(query: Readonly<Record<string, string>>): Access;
  readonly query: QuerySchema | undefined;
  readonly body: z.ZodType | undefined;
  readonly maxBodyBytes: number;
  readonly answers: Readonly<Record<number, EndpointAnswer>>;
  readonly problems: readonly ProblemCode[];
  run(call: AdminCall, parts: AdminParts): Promise<AdminReply>;
}

interface Definition<Query, Body> {
  readonly id: string;
  readonly method: Endpoint['method'];
  readonly path: string;
  readonly summary: string;
  readonly access: Access;
  /** Default: a GET only asks, everything else is a change. */
  readonly effect?: Effect;
  readonly accessFor?: Endpoint['accessFor'];
  readonly query?: QuerySchema & z.ZodType<Query>;
  readonly body?: z.ZodType<Body>;
  /** Default: 64 KiB. */
  readonly maxBodyBytes?: number;
  readonly answers: Readonly<Record<number, EndpointAnswer>>;
  readonly problems?: readonly ProblemCode[];
  handle(call: CheckedCall<Query, Body>, parts: AdminParts): EndpointResult | Promise<EndpointResult>;
}

export interface CheckedCall<Query, Body> {
  readonly parameters: Readonly<Record<string, string>>;
  readonly query: Query;
  readonly body: Body;
  readonly caller: AdminCaller;
}

export interface EndpointResult {
  readonly status: number;
  /** Text as it is where the answer has no schema; else what becomes JSON. */
  readonly value: unknown;
  readonly contentType?: string | undefined;
  readonly headers?: AdminReply['headers'];
  readonly stream?: AdminReply['stream'];
  readonly change?: RecordedChange | undefined;
}

const MAX_BODY_BYTES = 65_536;

/** An endpoint that checks what it gets and what it gives. */
export function defineEndpoint<Query = unknown, Body = undefined>(
  definition: Definition<Query, Body>,
): Endpoint {
  const { access, accessFor = () => access, query, body, answers, problems = [] } = definition;
  return {
    ...definition,
    effect: definition.effect ?? (definition.method === 'GET' ? 'none' : 'change'),
    accessFor,
    query,
    body,
    problems,
    maxBodyBytes: definition.maxBodyBytes ?? MAX_BODY_BYTES,
    async run(call, parts) {
      const asked: CheckedCall<Query, Body> = {
        parameters: call.parameters,
        caller: call.caller,
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- checked by the schema that the type comes from; without one nobody reads it
        query: (query === undefined ? {} : accept('query', query, call.query)) as Query,
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as for the query
        body: (body === undefined ? undefined : accept('body', body, call.body)) as Body,
      };
      const result = await definition.handle(asked, parts);
      return { ...replyOf(answers, result), change: result.change };
    },
  };
}

export function json(description: string, schema: z.ZodType): EndpointAnswer {
  return { description, schema };
}

function replyOf(
  answers: Endpoint['answers'],
  { status, value, contentType: given, stream, headers }: EndpointResult,
): AdminReply {
  const answer = answers[status];
  if (answer === undefined) throw new Error(`an endpoint answered ${status}, which it does not describe`);
  const { schema, contentType = 'application/json' } = answer;
  if (schema === undefined) {
    return { status, body: String(value), contentType: given ?? contentType, stream, headers };
  }
  return { status, body: `${JSON.stringify(schema.parse(value))}\n`, contentType, headers };
}

function accept<Output>(place: 'body' | 'query', schema: z.ZodType<Output>, value: unknown): Output {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new AdminProblem('INVALID_REQUEST', problemWith({ place, value, schema }, parsed.error.issues));
}

/** A value that a schema refused. */
interface RefusedInput {
  /** Where it was sent. */
  readonly place: 'body' | 'query';
  readonly value: unknown;
  readonly schema: z.ZodType;
}

/** A sentence about the first of several issues: which value, what it is, what is accepted. */
function problemWith({ place, value, schema }: RefusedInput, [issue]: readonly z.core.$ZodIssue[]): string {
  if (issue === undefined) return `The ${place} cannot be used.`;
  const path = issue.path.map((part) => (typeof part === 'number' ? part : String(part)));
  if (issue.code === 'unrecognized_keys') return `The ${place} ${unknownKey(issue.keys[0] ?? '', schema)}`;
  const name = path.length === 0 ? `The ${place}` : `${path.join('.')} in the ${place}`;
  return `${name} ${predicate(issue, path, value)}.`;
}

function unknownKey(key: string, schema: z.ZodType): string {
  const known = schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
  const meant = nearest(key, known);
  const advice = meant === undefined ? `; expected some of ${known.join(', ')}.` : `. Did you mean ${meant}?`;
  return `has ${shownName(key)}, which is unknown${advice}`;
}

const EXPECTED: ReadonlyMap<string, string> = new Map<string, string>(
  Object.entries({
    object: 'an object such as {"average": 100}',
    string: 'a duration as a text, such as "30s"',
    int: 'a whole number',
    number: 'a whole number',
  }),
);

/** Texts that are no durations. */
const FREE_TEXTS: ReadonlySet<unknown> = new Set(['by', 'note']);

function expectedAt(path: Path, kind: string): string {
  if (kind === 'string' && FREE_TEXTS.has(path.at(-1))) return 'a text';
  return EXPECTED.get(kind) ?? kind;
}

/** Continues "the value ...". */
function predicate(issue: z.core.$ZodIssue, path: Path, sent: unknown): string {
  const value = valueAt(sent, path);
  switch (issue.code) {
    case 'invalid_type':
      return wrongKind(value, expectedAt(path, issue.expected));
    case 'too_small':
      return value === ''
        ? wrongKind(value, expectedAt(path, 'string'))
        : `is ${shown(value)}; expected at least ${Number(issue.minimum)}`;
    case 'too_big':
      return typeof value === 'string'
        ? `has ${value.length} characters; expected at most ${Number(issue.maximum)}`
        : `is ${shown(value)}; expected at most ${Number(issue.maximum)}`;
    case 'invalid_value':
      return `is ${shown(value)}; expected one of ${issue.values.map(String).join(', ')}`;
    default:
      return issue.message;
  }
}

function wrongKind(value: unknown, expected: string): string {
  if (value === undefined) return `is missing; expected ${expected}`;
  const isQuotedNumber = typeof value === 'string' && /^\d+$/.test(value);
  return `is ${inJson(value)}; expected ${expected}${isQuotedNumber ? ': write it without quotes' : ''}`;
}

/** In the words of JSON, not of the configuration. */
function inJson(value: unknown): string {
  if (value === null) return 'null';
  return typeof value === 'object' && !Array.isArray(value) ? 'an object' : shown(value);
}
