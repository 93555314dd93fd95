import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import type { z } from 'zod';
import type { EndpointAnswer } from '../../api/open-api.ts';
import { ApiProblem, type ProblemOptions } from '../../api/problem.ts';
import { valueAt } from '../../config/path.ts';
import { shown, shownName } from '../../config/shown.ts';
import type { DecidedCount } from '../../telemetry/tracing.ts';
import type { ServiceSnapshot } from '../snapshot.ts';

/** Every way in which the service says that it cannot decide; `docs/service.md` lists them. */
export const SERVICE_PROBLEMS = {
  INVALID_REQUEST: { status: 400, title: 'The request cannot be understood' },
  TOKEN_REQUIRED: { status: 401, title: 'A valid token is required' },
  UNTRUSTED_PROXY: { status: 403, title: 'This proxy is not trusted' },
  NOT_FOUND: { status: 404, title: 'There is no such path' },
  UNKNOWN_POLICY: { status: 404, title: 'There is no such policy' },
  METHOD_NOT_ALLOWED: { status: 405, title: 'This method is not allowed here' },
  BODY_TOO_LARGE: { status: 413, title: 'The body is too large' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: 'The body must be JSON' },
  TOO_MANY_FAILURES: { status: 429, title: 'Too many wrong tokens' },
  INTERNAL: { status: 500, title: 'The service failed' },
  STORE_UNAVAILABLE: { status: 503, title: 'The store did not answer' },
} as const;

export type ServiceProblemCode = keyof typeof SERVICE_PROBLEMS;

/** Ends a call with a problem. Nothing was counted. */
export class ServiceProblem extends ApiProblem<ServiceProblemCode> {
  override name = 'ServiceProblem';

  constructor(code: ServiceProblemCode, detail: string, options?: ProblemOptions) {
    super(SERVICE_PROBLEMS, code, detail, options);
  }
}

export type CallRequest = IncomingMessage | Http2ServerRequest;
export type CallResponse = ServerResponse | Http2ServerResponse;

/** A request to the service, in every version of HTTP. */
export interface ServiceCall {
  readonly request: CallRequest;
  readonly method: string;
  readonly path: string;
  /** `?a=b`, or empty. */
  readonly query: string;
  readonly peer: string | undefined;
}

/** The lines of a header by its name in small letters. */
export function linesOf(headers: CallRequest['headers']): (name: string) => readonly string[] {
  return (name) => [headers[name] ?? []].flat();
}

export interface CallReply {
  readonly status: number;
  /** What was decided, for traces. */
  readonly decided?: DecidedCount | undefined;
  readonly contentType?: string | undefined;
  readonly headers?: readonly (readonly [name: string, value: string])[] | undefined;
  readonly body: string;
}

export function callOf(request: CallRequest): ServiceCall {
  const target = request.url ?? '';
  const mark = target.indexOf('?');
  return {
    request,
    method: request.method ?? '',
    path: mark < 0 ? target : target.slice(0, mark),
    query: mark < 0 ? '' : target.slice(mark),
    peer: request.socket.remoteAddress,
  };
}

export function jsonReply(value: unknown, status = 200): CallReply {
  return { status, contentType: 'application/json', body: `${JSON.stringify(value)}\n` };
}

export function problemReply(problem: ServiceProblem): CallReply {
  return {
    status: problem.status,
    contentType: 'application/problem+json',
    headers: Object.entries(problem.headers),
    body: `${JSON.stringify(problem)}\n`,
  };
}

/** A batch of 1000 checks with keys of usual length. */
const MAX_BODY_BYTES = 2 ** 20;
const JSON_TYPE = /^application\/json *(?:;|$)/i;

/** The body as JSON. */
export async function readJsonBody(request: CallRequest, example: string): Promise<unknown> {
  const type = request.headers['content-type'] ?? '';
  if (!JSON_TYPE.test(type)) {
    throw new ServiceProblem(
      'UNSUPPORTED_MEDIA_TYPE',
      `Content-Type is ${type === '' ? 'missing' : shown(type)}; expected "application/json".`,
    );
  }
  const body = await readBody(request);
  try {
    return JSON.parse(decoded(body));
  } catch {
    throw new ServiceProblem(
      'INVALID_REQUEST',
      `The body of ${body.length} bytes is not JSON; expected an object such as ${example}.`,
    );
  }
}

function decoded(body: Buffer): string {
  // A key that is not UTF-8 would become somebody else's.
  return new TextDecoder('utf-8', { fatal: true }).decode(body);
}

export async function readBody(request: CallRequest): Promise<Buffer> {
  const declared = Number(request.headers['content-length'] ?? 0);
  if (declared > MAX_BODY_BYTES) throw tooLarge(`${declared} bytes`);
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    request.on('data', (chunk: Buffer) => {
      length += chunk.length;
      if (length > MAX_BODY_BYTES) reject(tooLarge('more'));
      else chunks.push(chunk);
    });
    request.once('end', () => resolve(chunks.length === 1 ? (chunks[0] ?? NOTHING) : Buffer.concat(chunks)));
    const broken = (): void =>
      reject(new ServiceProblem('INVALID_REQUEST', 'The body ended before it was complete.'));
    request.once('aborted', broken);
    request.once('error', broken);
  });
}

const NOTHING = Buffer.alloc(0);

function tooLarge(size: string): ServiceProblem {
  return new ServiceProblem(
    'BODY_TOO_LARGE',
    `The body has ${size}; expected at most ${MAX_BODY_BYTES} bytes: send fewer checks at once.`,
  );
}

/** One line of the table that routing and the OpenAPI document come from. */
export interface ServiceEndpoint {
  readonly id: string;
  /** `ANY`: the method of the request that the proxy asks about. */
  readonly method: 'GET' | 'POST' | 'ANY';
  readonly path: string;
  /** Also everything below the path. */
  readonly below?: boolean | undefined;
  readonly summary: string;
  /**
   * `open`: anyone. `token`: the token, where one is configured. `proxy`: the same in `X-Spillgate-Token`, because
   * `Authorization` is that of the request that the proxy asks about.
   */
  readonly access: 'open' | 'token' | 'proxy';
  readonly body?: z.ZodType | undefined;
  readonly answers: Readonly<Record<number, EndpointAnswer>>;
  readonly problems: readonly ServiceProblemCode[];
  handle(call: ServiceCall, parts: EndpointParts): CallReply | Promise<CallReply>;
}

export interface EndpointParts {
  readonly snapshot: ServiceSnapshot;
  readonly version: string;
  /** Why no decision can be made now; undefined if one can. */
  readonly storeProblem: () => Promise<string | undefined>;
  readonly draining: () => boolean;
}

/** What the schema makes of a body; else a problem that names the first wrong value. */
export function accept<Output>(schema: z.ZodType<Output>, value: unknown): Output {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new ServiceProblem(
    'INVALID_REQUEST',
    issue === undefined ? 'The body cannot be used.' : said(issue, value),
  );
}

/** One sentence: which value, what it is, what is accepted. */
function said(issue: z.core.$ZodIssue, sent: unknown): string {
  const path = issue.path.map((part) => (typeof part === 'number' ? part : String(part)));
  const name = path.length === 0 ? 'The body' : path.join('.');
  const value = valueAt(sent, path);
  switch (issue.code) {
    case 'unrecognized_keys':
      return `${name} has ${shownName(issue.keys[0] ?? '')}, which is not a field of it: correct its name or leave it out.`;
    case 'invalid_type':
      return value === undefined
        ? `${name} is missing; expected ${issue.expected}.`
        : `${name} is ${inJson(value)}; expected ${issue.expected}.`;
    case 'too_small':
      return `${name} ${sized(value)}; expected at least ${Number(issue.minimum)}.`;
    case 'too_big':
      return `${name} ${sized(value)}; expected at most ${Number(issue.maximum)}.`;
    default:
      return issue.message;
  }
}

function sized(value: unknown): string {
  if (typeof value === 'string') return `has ${value.length} characters`;
  return Array.isArray(value) ? `has ${value.length} entries` : `is ${shown(value)}`;
}

function inJson(value: unknown): string {
  if (value === null) return 'null';
  return typeof value === 'object' && !Array.isArray(value) ? 'an object' : shown(value);
}
