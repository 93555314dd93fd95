import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const FOLDER = new URL('.', import.meta.url);

/** What every example prints. Node's test runner adds times to its report, so only its verdict is compared. */
const OUTPUTS: Readonly<Record<string, string>> = {
  'several-limits': [
    'request 1: allowed; left: user 9, tenant 1',
    'request 2: allowed; left: user 8, tenant 0',
    'request 3: denied by tenant; left: user 8, tenant 0',
  ].join('\n'),
  'override-per-key': ['spent:   ann 0, bob 0', 'raised:  ann 5, bob 0', 'removed: ann 0, bob 0'].join('\n'),
  'from-env': [
    'request 1: allowed true, remaining 1',
    'request 2: allowed true, remaining 0',
    'request 3: allowed false, remaining 0',
    'STORE_REQUIRED: DISTRIBUTED_RATE_LIMIT_ENABLED is "true", but no store was supplied for localhost:6379: ' +
      'pass createStore to limiterFromEnv(), or set the variable to "false" for limits per instance.',
  ].join('\n'),
  'express-server': ['login 1: 200, left: 1', 'login 2: 200, left: 0', 'login 3: 429, left: 0'].join('\n'),
  'fastify-server': [
    'GET /health: 200, left: unlimited',
    'GET /report: 200, left: 2',
    'GET /report: 429, left: 2',
    'GET /admin/users: 200, left: 0',
    'GET /admin/users: 429, left: 0',
    'GET /nowhere: 429, left: 0',
  ].join('\n'),
  'koa-server': [
    'ann: 200, 1 left',
    'ann: 200, 0 left',
    'ann: 429, come back in 30 min',
    'bob: 200, 1 left',
    'nobody: 401, sign in',
  ].join('\n'),
  'fetch-handler': [
    'ann /report: 200 {"path":"/report","region":"eu"} (left: 2)',
    'ann /report: 429 Slow down. (left: 2)',
    'ann /: 200 {"path":"/","region":"eu"} (left: 1)',
    'bob /report: 200 {"path":"/report","region":"eu"} (left: 2)',
  ].join('\n'),
  'hono-server': [
    'ann: 201, left: api 99, orders 1',
    'ann: 201, left: api 98, orders 0',
    'ann: 429, left: api 97, orders 0',
    'bob: 201, left: api 96, orders 1',
  ].join('\n'),
  'nest-server': [
    'login: 201, left: 1',
    'login: 201, left: 0',
    'login: 429, left: 0',
    'health: 200, left: not counted',
  ].join('\n'),
  'node-server': [
    '/report 200, left: 2',
    '/report 429, left: 2',
    '/report 200, left: 2',
    '/ 400, left: unknown',
  ].join('\n'),
  'limits-service': [
    'key-of-ann: 200 {"average":100,"burst":200,"period":"1s","tenant_key":"acme","cache_max_age_seconds":30}',
    'key-of-bob: 200 {"average":100,"burst":200,"period":"1s","tenant_key":"acme","cache_max_age_seconds":30}',
    'key-of-cyd: 200 {"average":10,"period":"1s","tenant_key":"cyan","cache_max_age_seconds":30}',
    'key-of-dan: 404 {"error":"nobody knows this key"}',
    'gRPC too: true',
  ].join('\n'),
  'polite-client': ['plain:  4 of 6 passed', 'polite: 6 of 6 passed'].join('\n'),
  'virtual-clock': '# pass 2\n# fail 0',
};

const examples = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts') && name !== 'demo-server.ts')
  .map((name) => name.replace(/\.ts$/, ''));

test('every example is run', () => {
  expect(examples.toSorted()).toEqual(Object.keys(OUTPUTS).toSorted());
});

test.each(examples)('%s prints what it promises', async (name) => {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [
    fileURLToPath(new URL(`build/${name}.js`, FOLDER)),
  ]);

  expect(stdout).toContain(OUTPUTS[name]);
  expect(stderr).toBe('');
});

test.each(examples)('%s is short enough to read at a glance', (name) => {
  expect(readFileSync(new URL(`${name}.ts`, FOLDER), 'utf8').split('\n').length).toBeLessThan(40);
});
