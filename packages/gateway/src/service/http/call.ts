import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import { shown } from '../../config/shown.ts';
import { ServiceProblem } from './service-problem.ts';

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

export interface CallReply {
  readonly status: number;
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
