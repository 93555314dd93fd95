import { z } from 'zod';
import { defineEndpoint, json, type AdminCaller, type Endpoint } from './endpoint.ts';

const sessionState = z.strictObject({
  via: z.enum(['open', 'token', 'session']).meta({
    description: '`open`: no token is configured. `token`: this request showed it. `session`: by a cookie.',
  }),
  role: z.enum(['operator', 'reader']).meta({
    description:
      '`operator`: may see and change. `reader`: came with `admin.read_only_token`, and changes nothing.',
  }),
  csrfToken: z.string().optional().meta({
    description: 'What every change of a session has to send as `X-CSRF-Token`.',
  }),
  expiresAt: z.iso.datetime().optional(),
});

export type SessionState = z.infer<typeof sessionState>;

/** For browsers, which cannot show a token with everything that they ask for. */
export const SESSION_ENDPOINTS: readonly Endpoint[] = [
  defineEndpoint({
    id: 'session',
    method: 'GET',
    path: '/v1/session',
    summary: 'By what this request was let in.',
    access: 'token',
    answers: { 200: json('By what.', sessionState) },
    handle: ({ caller }) => ({ status: 200, value: stateOf(caller) }),
  }),
  defineEndpoint({
    id: 'openSession',
    method: 'POST',
    path: '/v1/session',
    effect: 'session',
    summary:
      'Opens a session for whoever shows the token: a cookie that lasts eight hours, ends with the gateway or with its token, and is sent by no other site.',
    access: 'token',
    answers: { 200: json('It is open, unless no token is needed.', sessionState) },
    handle({ caller }) {
      if (caller.via !== 'token') return { status: 200, value: stateOf(caller) };
      const { cookie, ...session } = caller.open();
      const value = stateOf({ ...caller, via: 'session', session });
      return { status: 200, value, headers: { 'set-cookie': cookie } };
    },
  }),
  defineEndpoint({
    id: 'closeSession',
    method: 'DELETE',
    path: '/v1/session',
    effect: 'session',
    summary: 'Ends the session.',
    access: 'token',
    answers: { 200: json('It is over.', z.strictObject({ closed: z.literal(true) })) },
    handle: ({ caller }) => ({
      status: 200,
      value: { closed: true },
      headers: { 'set-cookie': caller.close() },
    }),
  }),
];

function stateOf({ via, role, session }: Pick<AdminCaller, 'via' | 'role' | 'session'>): SessionState {
  return { via, role, csrfToken: session?.csrfToken, expiresAt: session?.expiresAt.toISOString() };
}
