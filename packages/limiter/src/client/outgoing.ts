import type { Fetch } from './client-options.ts';

/** One call of `fetch`, to be sent once or several times. */
export interface Outgoing {
  /** As it was written, when it is not a URL on its own. */
  readonly url: string;
  readonly method: string;
  readonly signal: AbortSignal | undefined;
  send(): Promise<Response>;
  /** False when the body is gone: a stream can be sent only once. */
  canRepeat(): boolean;
}

export interface SendOptions {
  readonly fetch: Fetch;
  readonly maxBodyBytes: number;
}

export function outgoing(
  input: string | URL | Request,
  init: RequestInit = {},
  options: SendOptions,
): Outgoing {
  const request = typeof input === 'object' && 'clone' in input ? input : undefined;
  const about = {
    url: typeof input === 'string' ? input : 'href' in input ? input.href : input.url,
    method: (init.method ?? request?.method ?? 'GET').toUpperCase(),
    // `null` is a signal too: none, even if the request has one.
    signal: (init.signal === undefined ? request?.signal : init.signal) ?? undefined,
  };
  if (request !== undefined && !isGiven(init.body) && isGiven(request.body)) {
    return { ...about, ...keepingBody(request, init, options) };
  }
  const repeatable = !isStream(init.body);
  return { ...about, send: () => options.fetch(input, init), canRepeat: () => repeatable };
}

function isGiven<Body>(body: Body): body is NonNullable<Body> {
  return body !== undefined && body !== null;
}

/** A web stream, a stream of Node.js, or a generator. */
function isStream(body: unknown): boolean {
  return typeof body === 'object' && body !== null && ('getReader' in body || Symbol.asyncIterator in body);
}

/**
 * The body of a `Request` is a stream whatever it was made from. So it is read along while it is sent, as far as
 * allowed.
 */
function keepingBody(
  request: Request,
  init: RequestInit,
  { fetch, maxBodyBytes }: SendOptions,
): Pick<Outgoing, 'send' | 'canRepeat'> {
  let kept: Uint8Array<ArrayBuffer> | undefined;
  const keep = async (copy: Request): Promise<void> => {
    kept = await readAll(copy.body, maxBodyBytes);
  };
  return {
    send() {
      if (kept !== undefined) return fetch(request, { ...init, body: kept });
      // One that was read before is for `fetch` to complain about.
      if (!request.bodyUsed && maxBodyBytes > 0) void keep(request.clone());
      return fetch(request, init);
    },
    canRepeat: () => kept !== undefined,
  };
}

/** All bytes, or undefined when there are more than allowed or the stream breaks. */
async function readAll(
  body: ReadableStream<Uint8Array> | null,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const reader = body?.getReader();
  if (reader === undefined) return undefined;
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return joined(chunks, length);
      length += value.byteLength;
      if (length > maxBytes) break;
      chunks.push(value);
    }
    // Not awaited: it ends only when the copy that is sent has ended too.
    reader.cancel().catch(ignore);
  } catch {
    // The sender of the other copy gets the error.
  }
  return undefined;
}

function ignore(): void {}

function joined(chunks: readonly Uint8Array[], length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
}
