import { LimiterError, show } from '../errors.ts';
import { reasonPhrase } from './problem.ts';
import type { HeaderPair } from './rate-limit-headers.ts';
import type { CustomAnswer, RateLimitOptions, Refusal } from './rate-limit-options.ts';

/** A whole response. */
export interface Answer {
  readonly status: number;
  readonly headers: readonly HeaderPair[];
  readonly body: string;
}

/** What a refused request gets: the default, or what the application makes of it. */
export async function answerRefusal<Request>(
  option: RateLimitOptions<Request>['answer'],
  refusal: Refusal<Request>,
  headers: readonly HeaderPair[],
): Promise<Answer> {
  const standard = withHeaders(option === 'json' ? plainJson(refusal) : problemJson(refusal), headers);
  if (typeof option !== 'function') return standard;
  const custom = await option(refusal);
  return custom === undefined ? standard : merge(standard, custom);
}

function problemJson({ problem }: Refusal<unknown>): Answer {
  return {
    status: problem.status,
    headers: [['Content-Type', 'application/problem+json']],
    body: JSON.stringify(problem),
  };
}

function plainJson({ problem }: Refusal<unknown>): Answer {
  return {
    status: problem.status,
    headers: [['Content-Type', 'application/json']],
    body: JSON.stringify({ error: reasonPhrase(problem.status), message: problem.detail }),
  };
}

function withHeaders(answer: Answer, headers: readonly HeaderPair[]): Answer {
  return { ...answer, headers: [...headers, ...answer.headers] };
}

function merge(standard: Answer, { status = standard.status, headers = {}, body }: CustomAnswer): Answer {
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    throw new LimiterError(
      'INVALID_OPTION',
      `answer() returned the status ${show(status)}; expected 200 to 599, such as 429.`,
    );
  }
  const given: HeaderPair[] = body === undefined ? [] : [contentTypeOf(body)];
  for (const pair of Object.entries(headers)) replace(given, pair);
  const merged = [...standard.headers];
  for (const pair of given) replace(merged, pair);
  return { status, headers: merged, body: textOf(body) ?? standard.body };
}

/** Header names are the same in every case. */
function replace(pairs: HeaderPair[], pair: HeaderPair): void {
  const at = pairs.findIndex(([name]) => name.toLowerCase() === pair[0].toLowerCase());
  if (at === -1) pairs.push(pair);
  else pairs[at] = pair;
}

function contentTypeOf(body: string | object): HeaderPair {
  return ['Content-Type', typeof body === 'string' ? 'text/plain; charset=utf-8' : 'application/json'];
}

function textOf(body: string | object | undefined): string | undefined {
  return typeof body === 'object' ? JSON.stringify(body) : body;
}
