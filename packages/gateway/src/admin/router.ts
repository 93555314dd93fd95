import { shown } from '../config/shown.ts';
import type { Endpoint } from './endpoint.ts';
import { AdminProblem } from './problems.ts';

export interface Route {
  readonly endpoint: Endpoint;
  readonly parameters: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
}

const MAX_QUERY_PARAMETERS = 16;

/** Finds the endpoint that a request is for. A path is taken as it was sent: `..` and `//` are no other path. */
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
