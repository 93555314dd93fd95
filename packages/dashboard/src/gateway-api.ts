import type { SessionState } from 'spillgate-gateway';
import { Observable, useObservable } from './observable.ts';

/** The gateway said no, and why. */
class GatewayProblem extends Error {
  readonly status: number;
  readonly code: string;
  readonly body: unknown;

  constructor(status: number, body: unknown) {
    super(textOf(body, 'detail') ?? `The gateway answered ${status}.`);
    this.status = status;
    this.code = textOf(body, 'code') ?? '';
    this.body = body;
  }
}

/** Whether somebody has to sign in; `csrfToken` goes with every change. */
interface SignedIn {
  readonly state: 'unknown' | 'in' | 'out';
  readonly csrfToken?: string | undefined;
  /** Readers see everything, and change nothing. */
  readonly role?: SessionState['role'] | undefined;
}

export const signedIn = new Observable<SignedIn>({ state: 'unknown' });

/** Asks the gateway whether it knows this browser. */
export async function findSession(): Promise<void> {
  const { csrfToken, role } = await ask<SessionState>('GET', '/v1/session');
  signedIn.set({ state: 'in', csrfToken, role });
}

/** Shows the token once; from then on a cookie speaks for this browser. */
export async function signIn(token: string): Promise<void> {
  const headers = { authorization: `Bearer ${token}` };
  const { csrfToken, role } = await ask<SessionState>('POST', '/v1/session', undefined, headers);
  signedIn.set({ state: 'in', csrfToken, role });
}

export async function signOut(): Promise<void> {
  await ask<object>('DELETE', '/v1/session');
  signedIn.set({ state: 'out' });
}

/** Whether whoever looks at the page may also change something. */
export function useMayChange(): boolean {
  return useObservable(signedIn).role !== 'reader';
}

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** Asks the gateway. Rejects with `GatewayProblem`, or where there is no answer. */
export async function ask<Answer>(
  method: Method,
  path: string,
  body?: object,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const { csrfToken } = signedIn.value;
  const response = await fetch(path, {
    method,
    credentials: 'same-origin',
    headers: {
      ...headers,
      accept: 'application/json',
      ...(method === 'GET' ? {} : { 'content-type': 'application/json' }),
      ...(csrfToken === undefined || method === 'GET' ? {} : { 'x-csrf-token': csrfToken }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer: unknown = await response.json();
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the gateway checks what it sends by the schema that the type comes from
  if (response.ok) return answer as Answer;
  if (response.status === 401) signedIn.set({ state: 'out' });
  throw new GatewayProblem(response.status, answer);
}

function textOf(body: unknown, name: string): string | undefined {
  const value: unknown = typeof body === 'object' && body !== null ? Reflect.get(body, name) : undefined;
  return typeof value === 'string' ? value : undefined;
}
