import { shown } from '../config/shown.ts';
import type { Endpoint } from './endpoint.ts';
import { AdminProblem } from './problems.ts';
import type { IncomingMessage } from 'node:http';

export interface Route {
  readonly endpoint: Endpoint;
  readonly parameters: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
}

const MAX_QUERY_PARAMETERS = 16;

/** Finds the endpoint that a request is for. A path is taken as it was sent: `..` and `//` do not name another path. */
export function createRouter(endpoints: readonly Endpoint[]): (method: string, target: string) => Route {
  const routes = endpoints.map((endpoint) => ({ endpoint, segments: endpoint.path.split('/') }));
  return (method, target) => {
    const mark = target.indexOf('?');
    const path = mark < 0 ? target : target.slice(0, mark);
    const segments = path.split('/');
    const found = routes.filter((route) => matches(route.segments, segments));
    if (found.length === 0) {
      throw new AdminProblem('NOT_FOUND', `The path is ${shown(path)}; GET / lists what there is.`);
    }
    // What can be asked for with GET can be asked for without its body.
    const asked = method === 'HEAD' ? 'GET' : method;
    const route = found.find(({ endpoint }) => endpoint.method === asked);
    if (route === undefined)
      throw notAllowed(
        method,
        found.map(({ endpoint }) => endpoint.method),
      );
    return {
      endpoint: route.endpoint,
      parameters: parametersOf(route.segments, segments),
      query: mark < 0 ? {} : queryOf(target.slice(mark + 1)),
    };
  };
}

function matches(template: readonly string[], segments: readonly string[]): boolean {
  return (
    template.length === segments.length &&
    template.every((part, at) => (isPlace(part) ? segments[at] !== '' : part === segments[at]))
  );
}

function isPlace(part: string): boolean {
  return part.startsWith('{');
}

function parametersOf(template: readonly string[], segments: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    template.flatMap((part, at) =>
      isPlace(part) ? [[part.slice(1, -1), decoded(segments[at] ?? '')] as const] : [],
    ),
  );
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new AdminProblem(
      'INVALID_REQUEST',
      `A part of the path is ${shown(segment)}; expected UTF-8 in percent-encoding: %25 stands for a percent sign.`,
    );
  }
}

function queryOf(text: string): Record<string, string> {
  const pairs = [...new URLSearchParams(text)];
  if (pairs.length > MAX_QUERY_PARAMETERS) {
    throw new AdminProblem(
      'INVALID_REQUEST',
      `The query has ${pairs.length} parameters; expected at most ${MAX_QUERY_PARAMETERS}.`,
    );
  }
  return Object.fromEntries(pairs);
}

function notAllowed(method: string, methods: readonly string[]): AdminProblem {
  const allowed = methods.flatMap((name) => (name === 'GET' ? ['GET', 'HEAD'] : [name])).join(', ');
  return new AdminProblem('METHOD_NOT_ALLOWED', `The method is ${shown(method)}; expected ${allowed}.`, {
    headers: { allow: allowed },
  });
}

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
