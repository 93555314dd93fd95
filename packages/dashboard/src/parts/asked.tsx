import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ask } from '../gateway-api.ts';
import { Empty } from './card.tsx';

export type Asked<Answer> =
  | { readonly state: 'asking' }
  | { readonly state: 'answered'; readonly answer: Answer }
  | { readonly state: 'failed'; readonly why: string };

/** What the gateway answers to a GET; asked again when the path or the turn changes. */
export function useAsked<Answer>(path: string | undefined, turn = 0): Asked<Answer> {
  const [asked, set] = useState<Asked<Answer>>({ state: 'asking' });
  useEffect(() => {
    if (path === undefined) return undefined;
    let current = true;
    ask<Answer>('GET', path).then(
      (answer) => current && set({ state: 'answered', answer }),
      (failure: unknown) => current && set({ state: 'failed', why: messageOf(failure) }),
    );
    return () => {
      current = false;
    };
  }, [path, turn]);
  return asked;
}

export function messageOf(failure: unknown): string {
  if (failure instanceof TypeError) return 'The gateway does not answer.';
  return failure instanceof Error ? failure.message : String(failure);
}

interface AnswerProps<Answer> {
  readonly asked: Asked<Answer>;
  readonly children: (answer: Answer) => ComponentChildren;
}

/** The answer, or what stands where it is missing. */
export function Answered<Answer>({ asked, children }: AnswerProps<Answer>): VNode {
  if (asked.state === 'asking') return <Empty title="Asking the gateway…" />;
  if (asked.state === 'failed') return <Empty title="That did not work">{asked.why}</Empty>;
  return <>{children(asked.answer)}</>;
}
