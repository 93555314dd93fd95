import type { IncomingMessage } from 'node:http';
import { AdminProblem } from './problems.ts';

const MAX_BODY_BYTES = 65_536;

/** The body as JSON; undefined if there is none. */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  const text = await readText(request);
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw new AdminProblem(
      'INVALID_REQUEST',
      `The body of ${text.length} characters is no JSON; expected an object such as {"average": 100}.`,
    );
  }
}

async function readText(request: IncomingMessage): Promise<string> {
  const declared = Number(request.headers['content-length'] ?? 0);
  if (declared > MAX_BODY_BYTES) throw tooLarge(`${declared} bytes`);
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      if (!Buffer.isBuffer(chunk)) continue;
      length += chunk.length;
      if (length > MAX_BODY_BYTES) throw tooLarge('more');
      chunks.push(chunk);
    }
  } catch (failure) {
    if (failure instanceof AdminProblem) throw failure;
    throw new AdminProblem('INVALID_REQUEST', 'The body ended before it was complete.');
  }
  return Buffer.concat(chunks).toString('utf8');
}

function tooLarge(size: string): AdminProblem {
  return new AdminProblem(
    'BODY_TOO_LARGE',
    `The body has ${size}; expected at most ${MAX_BODY_BYTES} bytes.`,
  );
}
