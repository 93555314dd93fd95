// What a server would cost that reads HTTP/1.1 itself instead of with node:http: heads only, strictly, and the same
// answer for everybody.
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Socket } from 'node:net';

const BODY = 'hello, world';
const HEADERS = [
  ['Content-Type', 'text/plain'],
  ['Content-Length', String(BODY.length)],
  ['RateLimit-Policy', '"default";q=1000000;w=1'],
  ['RateLimit', '"default";r=999999;t=1'],
  ['X-Request-Id', '01234567-89ab-cdef-0123-456789abcdef'],
].flat();

const NAME = /^[!#$%&'*+\-.^_`|~\dA-Za-z]+$/;
const VALUE = /^[\t -~\x80-\xff]*$/;
const HEAD_END = '\r\n\r\n';

/** The reference: what the gateway asks of node:http, without anything behind it. */
export function serveWithNodeHttp(port: number): void {
  createHttpServer({ noDelay: true }, ({ rawHeaders }, response) => {
    if (rawHeaders.length === 0) throw new Error('a request without headers');
    response.writeHead(200, 'OK', HEADERS);
    response.write(BODY, 'latin1');
    response.end();
  }).listen(port, '127.0.0.1');
}

export function serveWithOwnParser(port: number): void {
  createServer({ noDelay: true }, (socket) => {
    let rest = '';
    socket.on('error', () => socket.destroy());
    socket.on('data', (bytes) => {
      rest += bytes.toString('latin1');
      for (let end = rest.indexOf(HEAD_END); end >= 0; end = rest.indexOf(HEAD_END)) {
        if (headersOf(rest.slice(0, end)) === undefined) socket.destroy();
        else answer(socket);
        rest = rest.slice(end + HEAD_END.length);
      }
    });
  }).listen(port, '127.0.0.1');
}

/** Names and values by turns; undefined if it is not the head of a request. */
function headersOf(head: string): readonly string[] | undefined {
  const [line = '', ...fields] = head.split('\r\n');
  const [method = '', target = '', version, ...more] = line.split(' ');
  if (version !== 'HTTP/1.1' || more.length > 0 || target === '' || !NAME.test(method)) return undefined;
  const headers: string[] = [];
  for (const field of fields) {
    const colon = field.indexOf(':');
    const name = field.slice(0, colon);
    const value = field.slice(colon + 1).trim();
    if (!NAME.test(name) || !VALUE.test(value)) return undefined;
    headers.push(name, value);
  }
  return headers;
}

let waiting: Socket[] = [];

/** All answers of one turn of the event loop together, as the gateway does. */
function answer(socket: Socket): void {
  waiting.push(socket);
  if (waiting.length > 1) return;
  setImmediate(() => {
    const sockets = waiting;
    waiting = [];
    let text = 'HTTP/1.1 200 OK\r\n';
    for (let at = 0; at < HEADERS.length; at += 2) text += `${HEADERS[at]}: ${HEADERS[at + 1]}\r\n`;
    text += `Date: ${new Date().toUTCString()}${HEAD_END}${BODY}`;
    for (const each of sockets) each.write(text, 'latin1');
  });
}
