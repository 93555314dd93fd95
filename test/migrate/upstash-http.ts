import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { type RedisServer, type Reply, ReplyError } from '../redis/servers.ts';

/**
 * Upstash's HTTP protocol in front of a real Redis: commands as JSON in (`/pipeline`), replies as JSON out. Returns its
 * address.
 */
export async function startUpstashHttp(redis: RedisServer): Promise<string> {
  const server = createServer((request, response) => void answer(redis, request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
}

async function answer(redis: RedisServer, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const commands = listOf(await json(request));
  const encode = request.headers['upstash-encoding'] === 'base64' ? inBase64 : (reply: Reply) => reply;
  const results: object[] = [];
  for (const command of commands) results.push(await run(redis, listOf(command), encode));
  response.end(JSON.stringify(results));
}

async function run(
  redis: RedisServer,
  command: readonly unknown[],
  encode: (reply: Reply) => unknown,
): Promise<object> {
  try {
    return { result: encode(await redis.command(...command.map(String).map(withoutForeignFlags))) };
  } catch (error) {
    if (error instanceof ReplyError) return { error: error.message };
    throw error;
  }
}

/** Upstash's servers know a flag of scripts that Redis refuses. */
function withoutForeignFlags(word: string): string {
  return word.replace(/^#!lua flags=allow-key-locking\n/, '');
}

function listOf(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new TypeError('neither commands nor a command');
  return value;
}

function inBase64(reply: Reply): unknown {
  if (Array.isArray(reply)) return reply.map(inBase64);
  return typeof reply === 'string' && reply !== 'OK' ? Buffer.from(reply).toString('base64') : reply;
}
