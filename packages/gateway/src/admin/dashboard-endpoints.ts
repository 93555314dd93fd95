import { readFileSync } from 'node:fs';
import { defineEndpoint, type Endpoint } from './endpoint.ts';
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
