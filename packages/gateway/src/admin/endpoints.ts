import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { openApiDocument, operationOf, schemaOf, type OpenApiPart } from '../api/open-api.ts';
import { shown } from '../config/shown.ts';
import { defineEndpoint, json, type Endpoint } from './endpoint.ts';
import { FLEET_ENDPOINTS } from './fleet-endpoints.ts';
import {
  GATEWAY_ENDPOINTS,
  PROBE_ENDPOINTS,
  CONFIG_ENDPOINTS,
  MAINTENANCE_ENDPOINTS,
} from './gateway-endpoints.ts';
import { KEY_ENDPOINTS } from './key-endpoints.ts';
import { DASHBOARD_ENDPOINTS, SESSION_ENDPOINTS, LIVE_ENDPOINTS } from './dashboard-endpoints.ts';
import { EXPLAIN_ENDPOINTS } from './explain-endpoints.ts';
import { AdminProblem, PROBLEMS, type ProblemCode } from './problems.ts';
import { problem } from './schemas.ts';

/** The one table of endpoints. */
export const ENDPOINTS: readonly Endpoint[] = [
  ...PROBE_ENDPOINTS,
  ...GATEWAY_ENDPOINTS,
  ...CONFIG_ENDPOINTS,
  ...KEY_ENDPOINTS,
  ...FLEET_ENDPOINTS,
  ...SESSION_ENDPOINTS,
  ...EXPLAIN_ENDPOINTS,
  ...LIVE_ENDPOINTS,
  ...DASHBOARD_ENDPOINTS,
  ...MAINTENANCE_ENDPOINTS,
  ...pageEndpoints(() => ENDPOINTS),
];

/**
 * What describes the others. Neither knows anything that the documentation does not say, so neither needs the token.
 */
function pageEndpoints(all: () => readonly Endpoint[]): readonly Endpoint[] {
  return [
    defineEndpoint({
      id: 'openapi',
      method: 'GET',
      path: '/openapi.json',
      summary: 'This API as an OpenAPI 3.1 document.',
      access: 'host',
      answers: { 200: json('The document.', z.record(z.string(), z.unknown())) },
      handle: (_, { version }) => ({ status: 200, value: adminOpenApi(all(), version) }),
    }),
    defineEndpoint({
      id: 'index',
      method: 'GET',
      path: '/endpoints',
      summary: 'A page that lists these endpoints.',
      access: 'host',
      answers: {
        200: { description: 'The page.', schema: undefined, contentType: 'text/html; charset=utf-8' },
      },
      handle: () => ({ status: 200, value: page(all()) }),
    }),
  ];
}

/** Nothing that a client or a configuration chose stands on it. */
function page(endpoints: readonly Endpoint[]): string {
  const rows = endpoints.map(({ method, path, summary }) => {
    const place =
      method === 'GET' && !path.includes('{') ? `<a href="${path}">${path}</a>` : `<code>${path}</code>`;
    return `<tr><td>${method}</td><td>${place}</td><td>${summary.replaceAll('`', '')}</td></tr>`;
  });
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Spillgate</title></head>
<body>
<h1>Spillgate</h1>
<table>
${rows.join('\n')}
</table>
</body>
</html>
`;
}

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
      throw new AdminProblem('NOT_FOUND', `The path is ${shown(path)}; GET /endpoints lists what there is.`);
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

/** The body as JSON; undefined if there is none. */
export async function readJson(request: IncomingMessage, maxBytes: number): Promise<unknown> {
  const text = await readText(request, maxBytes);
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

async function readText(request: IncomingMessage, maxBytes: number): Promise<string> {
  const declared = Number(request.headers['content-length'] ?? 0);
  if (declared > maxBytes) throw tooLarge(`${declared} bytes`, maxBytes);
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      if (!Buffer.isBuffer(chunk)) continue;
      length += chunk.length;
      if (length > maxBytes) throw tooLarge('more', maxBytes);
      chunks.push(chunk);
    }
  } catch (failure) {
    if (failure instanceof AdminProblem) throw failure;
    throw new AdminProblem('INVALID_REQUEST', 'The body ended before it was complete.');
  }
  return Buffer.concat(chunks).toString('utf8');
}

function tooLarge(size: string, maxBytes: number): AdminProblem {
  return new AdminProblem('BODY_TOO_LARGE', `The body has ${size}; expected at most ${maxBytes} bytes.`);
}

const TOKEN = {
  type: 'http',
  scheme: 'bearer',
  description:
    'The setting `admin.token`, or `admin.read_only_token` for what changes nothing; not needed where there is none.',
};

function adminOpenApi(endpoints: readonly Endpoint[], version: string): OpenApiPart {
  return openApiDocument({
    title: 'Spillgate admin API',
    version,
    description: 'Health, metrics, configuration and the state of single keys of a running gateway.',
    paths: pathsOf(endpoints),
    problem,
    securitySchemes: { token: TOKEN },
  });
}

function pathsOf(endpoints: readonly Endpoint[]): OpenApiPart {
  const paths = new Map<string, Record<string, unknown>>();
  for (const endpoint of endpoints) {
    const { id: operationId, summary, access, path, body, answers } = endpoint;
    const item = paths.get(path) ?? {};
    item[endpoint.method.toLowerCase()] = operationOf(PROBLEMS, {
      operationId,
      summary,
      scheme: access === 'token' ? 'token' : undefined,
      parameters: [...pathParameters(path), ...queryParameters(endpoint)],
      body,
      answers,
      problems: problemsOf(endpoint),
    });
    paths.set(path, item);
  }
  return Object.fromEntries(paths);
}

/** Every problem that an endpoint can answer with. */
export function problemsOf({ access, method, problems, effect }: Endpoint): readonly ProblemCode[] {
  return [
    'INVALID_REQUEST',
    ...(access === 'token' ? (['TOKEN_REQUIRED', 'TOO_MANY_FAILURES'] as const) : []),
    ...(access === 'open' ? [] : (['MISDIRECTED_HOST'] as const)),
    ...(access === 'token' && effect === 'change' ? (['READ_ONLY'] as const) : []),
    ...(method === 'GET' ? [] : (['CROSS_SITE', 'BODY_TOO_LARGE'] as const)),
    ...(method === 'POST' || method === 'PUT' ? (['UNSUPPORTED_MEDIA_TYPE'] as const) : []),
    ...problems,
    'INTERNAL',
  ];
}

function pathParameters(path: string): readonly OpenApiPart[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string', minLength: 1 },
  }));
}

function queryParameters({ query }: Endpoint): readonly OpenApiPart[] {
  return Object.entries(query?.shape ?? {}).map(([name, schema]) => ({
    name,
    in: 'query',
    required: false,
    schema: schemaOf(schema, 'input'),
  }));
}
