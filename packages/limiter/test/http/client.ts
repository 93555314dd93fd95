import { once } from 'node:events';
import {
  request as sendRequest,
  type Agent,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
} from 'node:http';
import { connect, type Socket } from 'node:net';

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Question {
  readonly path?: string;
  readonly method?: string;
  /** An array is sent as several lines. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string;
  /** The address to come from: Linux has all of 127.0.0.0/8. */
  readonly from?: string;
  readonly agent?: Agent;
}

/** One HTTP request. Unlike `fetch`, it can send a header twice and choose where it comes from. */
export async function ask(host: string, port: number, question: Question = {}): Promise<Reply> {
  const { path = '/', method = 'GET', headers = {}, body, from, agent } = question;
  const sent = Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, typeof value === 'string' ? value : [...value]]),
  );
  const request = sendRequest({ host, port, path, method, headers: sent, localAddress: from, agent });
  request.end(body);
  const response = await responseTo(request);
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return { status: response.statusCode ?? 0, headers: response.headers, body: text };
}

function responseTo(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve);
    request.once('error', reject);
  });
}

/** A socket that writes bytes as they are and collects what comes back. */
export interface RawClient {
  readonly socket: Socket;
  readonly received: () => string;
  /** Waits until the answer so far satisfies the condition. */
  until(condition: (received: string) => boolean): Promise<string>;
}

export async function openRaw(port: number, text: string): Promise<RawClient> {
  const socket = connect({ port, host: '127.0.0.1' });
  let received = '';
  socket.on('data', (chunk: Buffer) => {
    received += chunk.toString('latin1');
  });
  await once(socket, 'connect');
  socket.write(text);
  return {
    socket,
    received: () => received,
    async until(condition) {
      while (!condition(received)) await once(socket, 'data');
      return received;
    },
  };
}

/** The status codes of a stream of responses, in order. */
export function statusesIn(received: string): number[] {
  return [...received.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status));
}
