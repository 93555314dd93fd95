import type { Fetch } from '../../src/client/index.ts';
import type { Timeline } from './timeline.ts';

type Answer = Response | Error | ((input: string | URL | Request, init?: RequestInit) => Promise<Response>);

export interface ScriptedServer {
  readonly fetch: Fetch;
  /** When each request came, in milliseconds. */
  readonly times: number[];
}

/** Gives these answers, one after the other; the last one again and again. */
export function scriptedServer(time: Timeline, ...answers: readonly (() => Answer)[]): ScriptedServer {
  const times: number[] = [];
  return {
    times,
    fetch: async (input, init) => {
      const answer = (answers[times.length] ?? answers.at(-1))?.();
      times.push(time.nowMs());
      if (answer === undefined) throw new Error('there is no answer');
      if (answer instanceof Error) throw answer;
      return typeof answer === 'function' ? answer(input, init) : answer;
    },
  };
}

export const ok =
  (headers: Record<string, string> = {}) =>
  (): Response =>
    new Response('welcome', { headers });

export const refusal =
  (headers: Record<string, string> = {}, status = 429) =>
  (): Response =>
    new Response('later', { status, headers });

export function pathOf(input: string | URL | Request): string {
  return new URL(input instanceof Request ? input.url : input).pathname;
}
