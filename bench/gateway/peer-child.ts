// node peer-child.js <peer> <port> <upstream port>: a proxy made of a peer, as its documentation shows it.
// oxlint-disable typescript/no-deprecated -- the form that undici 7 calls itself; the newer one is wrapped around it
import { Agent, createServer } from 'node:http';

import replyFrom from '@fastify/reply-from';
import fastify from 'fastify';
import { createProxyServer } from 'http-proxy-3';
import { Pool } from 'undici';

import { serveWithNodeHttp, serveWithOwnParser } from './own-front.ts';

const [name, port, upstreamPort] = process.argv.slice(2);
const upstream = `http://127.0.0.1:${upstreamPort}`;

if (name === 'http-proxy-3') {
  const proxy = createProxyServer({ target: upstream, xfwd: true, agent: new Agent({ keepAlive: true }) });
  proxy.on('error', (error) => {
    throw error;
  });
  createServer((request, response) => proxy.web(request, response)).listen(Number(port), '127.0.0.1');
} else if (name === 'reply-from') {
  const app = fastify();
  await app.register(replyFrom, { base: upstream });
  app.all('/*', (_, reply) => reply.from('/'));
  await app.listen({ port: Number(port), host: '127.0.0.1' });
} else if (name === 'bare') {
  // Not a proxy that anyone should use: no header is removed, and nothing that fails is answered.
  const pool = new Pool(upstream, { connections: 256 });
  createServer((request, response) => {
    pool.dispatch(
      { path: request.url ?? '/', method: 'GET', headers: request.rawHeaders, body: null },
      {
        onConnect: () => undefined,
        onHeaders: (status, headers) => {
          const lines = headers.map((part) => part.toString('latin1'));
          const connection = lines.findIndex((line) => line.toLowerCase() === 'connection');
          response.writeHead(status, connection < 0 ? lines : lines.toSpliced(connection, 2));
          return true;
        },
        onData: (chunk) => response.write(chunk),
        onComplete: () => void response.end(),
        onError: (error) => {
          throw error;
        },
      },
    );
  }).listen(Number(port), '127.0.0.1');
} else if (name === 'upstream') {
  createServer((_, response) => response.end('hello, world')).listen(Number(port), '127.0.0.1');
} else if (name === 'front-http') {
  serveWithNodeHttp(Number(port));
} else if (name === 'front-own') {
  serveWithOwnParser(Number(port));
} else {
  throw new Error(`There is no peer ${name}.`);
}
