import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { defineEndpoint, type Endpoint, json, type AdminCaller } from './endpoint.ts';
import { liveSample } from './live/live-sample.ts';
import { AdminProblem } from './problems.ts';

/** What the dashboard is made of. Nothing else of the folder is served, whatever a path says. */
const FILES: ReadonlyMap<string, string> = new Map([
  ['index.html', 'text/html; charset=utf-8'],
  ['dashboard.js', 'text/javascript; charset=utf-8'],
  ['dashboard.css', 'text/css; charset=utf-8'],
  ['icon.svg', 'image/svg+xml'],
]);

/** The same from the sources as from what was built of them. */
const FOLDER = new URL('../../dist/dashboard/', import.meta.url);

const kept = new Map<string, string>();

/** The page and its files say nothing about this gateway, so nobody needs the token for them. */
export const DASHBOARD_ENDPOINTS: readonly Endpoint[] = [
  defineEndpoint({
    id: 'dashboard',
    method: 'GET',
    path: '/',
    summary: 'The dashboard.',
    access: 'host',
    answers: {
      200: { description: 'The page.', schema: undefined, contentType: 'text/html; charset=utf-8' },
    },
    handle: () => ({ status: 200, value: contentOf('index.html') }),
  }),
  defineEndpoint({
    id: 'dashboardFile',
    method: 'GET',
    path: '/ui/{file}',
    summary: 'A file of the dashboard.',
    access: 'host',
    answers: {
      200: { description: 'The file.', schema: undefined, contentType: 'text/javascript; charset=utf-8' },
    },
    problems: ['NOT_FOUND'],
    handle: ({ parameters: { file = '' } }) => ({
      status: 200,
      value: contentOf(file),
      contentType: FILES.get(file),
    }),
  }),
];

function contentOf(file: string): string {
  if (!FILES.has(file)) throw new AdminProblem('NOT_FOUND', 'The dashboard has no such file.');
  const known = kept.get(file);
  if (known !== undefined) return known;
  try {
    const text = readFileSync(new URL(file, FOLDER), 'utf8');
    kept.set(file, text);
    return text;
  } catch {
    throw new AdminProblem('NOT_FOUND', 'The dashboard was not built: run npm run build in the repository.');
  }
}

export const LIVE_ENDPOINTS: readonly Endpoint[] = [
  defineEndpoint({
    id: 'live',
    method: 'GET',
    path: '/v1/live',
    summary:
      'What the gateway does, as server-sent events: `history` once, then a `sample` every second. Counters go up from the start of the gateway.',
    access: 'token',
    answers: { 200: { description: 'The events.', schema: undefined, contentType: 'text/event-stream' } },
    problems: ['TOO_MANY_WATCHERS'],
    handle: (_, { live }) => ({ status: 200, value: '', stream: live.join() }),
  }),
  defineEndpoint({
    id: 'sample',
    method: 'GET',
    path: '/v1/live/sample',
    summary: 'One sample of `GET /v1/live`.',
    access: 'token',
    answers: { 200: json('The sample.', liveSample) },
    handle: async (_, { live }) => ({ status: 200, value: await live.sample() }),
  }),
];

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
