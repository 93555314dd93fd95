// node peer-child.js <peer> <port> <upstream port>: a proxy made of a peer, as its documentation shows it.
import { Agent, createServer } from 'node:http';

import replyFrom from '@fastify/reply-from';
import fastify from 'fastify';
import { createProxyServer } from 'http-proxy-3';

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
} else {
  throw new Error(`There is no peer ${name}.`);
}
