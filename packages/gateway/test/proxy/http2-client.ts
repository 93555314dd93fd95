import { once } from 'node:events';
import { connect, type ClientHttp2Session, type IncomingHttpHeaders } from 'node:http2';
import { onTestFinished } from 'vitest';

export function session(url: string): ClientHttp2Session {
  const client = connect(url);
  client.on('error', () => undefined);
  onTestFinished(async () => leave(client));
  return client;
}

/**
 * A test may end in the middle of what the session reads, and to destroy it there corrupts the memory of the process
 * (nodejs/node#65093).
 */
export async function leave(client: ClientHttp2Session): Promise<void> {
  await new Promise(setImmediate);
  client.destroy();
}

export interface Http2Answer {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly trailers: IncomingHttpHeaders | undefined;
}

export async function ask(
  client: ClientHttp2Session,
  headers: Record<string, string>,
  body?: string,
): Promise<Http2Answer> {
  const stream = client.request(headers, { endStream: body === undefined });
  if (body !== undefined) stream.end(body);
  let trailers: IncomingHttpHeaders | undefined;
  stream.on('trailers', (got) => {
    trailers = got as IncomingHttpHeaders;
  });
  const [head] = (await once(stream, 'response')) as [IncomingHttpHeaders];
  stream.setEncoding('utf8');
  let text = '';
  for await (const chunk of stream) text += String(chunk);
  return { headers: head, body: text, trailers };
}
