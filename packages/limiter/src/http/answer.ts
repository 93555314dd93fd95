import { LimiterError, show } from '../errors.ts';
import { reasonPhrase } from './problem.ts';
import type { HeaderPair } from './rate-limit-headers.ts';
import type { AnswerFunction, CustomAnswer, HttpRefusal } from './rate-limit-options.ts';

/** A whole response. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: readonly HeaderPair[];
  readonly body: string;
}

/** What a refused request gets by default. */
export function standardAnswer(
  style: 'problem' | 'json',
  refusal: HttpRefusal<unknown>,
  headers: readonly HeaderPair[],
): HttpAnswer {
  return withHeaders(style === 'json' ? plainJson(refusal) : problemJson(refusal), headers);
}

/** The default answer with what the application changes of it. */
export async function customAnswer<Request>(
  choose: AnswerFunction<Request>,
  refusal: HttpRefusal<Request>,
  headers: readonly HeaderPair[],
): Promise<HttpAnswer> {
  const standard = standardAnswer('problem', refusal, headers);
  const custom = await choose(refusal);
  return custom === undefined ? standard : merge(standard, custom);
}

function problemJson({ problem }: HttpRefusal<unknown>): HttpAnswer {
  return {
    status: problem.status,
    headers: [['Content-Type', 'application/problem+json']],
    body: JSON.stringify(problem),
  };
}

function plainJson({ problem }: HttpRefusal<unknown>): HttpAnswer {
  return {
    status: problem.status,
    headers: [['Content-Type', 'application/json']],
    body: JSON.stringify({ error: reasonPhrase(problem.status), message: problem.detail }),
  };
}

function withHeaders(answer: HttpAnswer, headers: readonly HeaderPair[]): HttpAnswer {
  return { ...answer, headers: [...headers, ...answer.headers] };
}

function merge(
  standard: HttpAnswer,
  { status = standard.status, headers = {}, body }: CustomAnswer,
): HttpAnswer {
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
