// Code in the documents that shows a part of a program: that part in a whole one.
import { readFileSync } from 'node:fs';
import type { DynamicModule, Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { createLimiter, tokenBucket } from 'spillgate';
import { RateLimitModule } from 'spillgate/nest';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { codeBlocks, type CodeBlock } from './documents/code-blocks.ts';
import { compileBlocks, type CompiledBlocks } from './documents/compile-blocks.ts';
import { withServer } from './documents/server-program.ts';

const REPOSITORY = new URL('../', import.meta.url);
const BUILD = new URL('build/pages-in-use/', import.meta.url);
const DEADLINE_MS = 60_000;

const blocks = ['docs/nest.md', 'docs/external-limits.md'].flatMap((path) =>
  codeBlocks(path, readFileSync(new URL(path, REPOSITORY), 'utf8')).filter(({ info }) =>
    info.startsWith('ts'),
  ),
);
let compiled: CompiledBlocks;

beforeAll(async () => {
  compiled = await compileBlocks(blocks, BUILD, REPOSITORY);
}, DEADLINE_MS);

function blockWith(text: string): CodeBlock {
  const [block, ...more] = blocks.filter((each) => each.text.includes(text));
  if (block === undefined || more.length > 0) throw new Error(`not one block with ${text}`);
  return block;
}

/** What a block exports. */
async function exportsOf(block: CodeBlock): Promise<Readonly<Record<string, unknown>>> {
  return (await import(compiled.programOf(block))) as Readonly<Record<string, unknown>>;
}

class Application {
  readonly page = 'docs/nest.md';
}

async function startNest(limits: DynamicModule, controller: Type): Promise<string> {
  const application: DynamicModule = { module: Application, imports: [limits], controllers: [controller] };
  const app = await NestFactory.create(application, { logger: false });
  onTestFinished(async () => app.close());
  await app.listen(0, '127.0.0.1');
  return app.getUrl();
}

/** The names of the policies that a request met, and the status. */
async function met(url: string, init: RequestInit = {}): Promise<readonly [number, readonly string[]]> {
  const response = await fetch(url, init);
  await response.text();
  const names = (response.headers.get('ratelimit-policy') ?? '').matchAll(/"([^"]+)"/g);
  return [response.status, [...names].map(([, name = '']) => name)];
}

async function accountController(): Promise<Type> {
  return (await exportsOf(blockWith('@SkipLimit()')))['AccountController'] as Type;
}

test('docs/nest.md: the routes are counted as the page says below them', async () => {
  const api = tokenBucket({ name: 'api', average: 50, period: '1m' });
  const url = await startNest(
    RateLimitModule.forRoot({ limiter: createLimiter(), policies: api }),
    await accountController(),
  );
  const headers = { 'x-tenant': 'acme' };

  expect(await met(`${url}/account/login`, { method: 'POST', headers })).toEqual([
    201,
    ['api', 'reports', 'login'],
  ]);
  const [status, names] = await met(`${url}/account/search`, { headers });
  expect([status, names.toSorted()]).toEqual([200, ['api', 'reports']]);
  expect(await met(`${url}/account/health`)).toEqual([200, []]);
  for (let at = 1; at < 5; at += 1) await met(`${url}/account/login`, { method: 'POST', headers });
  expect((await met(`${url}/account/login`, { method: 'POST', headers }))[0]).toBe(429);
});

test.each(['forRootAsync({', "!== 'graphql'"])(
  'docs/nest.md: the module with %s limits an application',
  async (text) => {
    const { limits } = await exportsOf(blockWith(text));
    const url = await startNest((await limits) as DynamicModule, await accountController());

    expect(await met(`${url}/account/health`)).toEqual([200, []]);
    expect((await met(`${url}/account/search`, { headers: { 'x-tenant': 'acme' } }))[1]).toContain('api');
  },
);

test('docs/external-limits.md: the service answers with the plan of the key', async () => {
  const program = compiled.programOf(blockWith('createLimitsService'));

  const answers = await withServer(program, {}, async (url) =>
    Promise.all(
      ['pro-acme', 'ann'].map(async (key) => {
        const response = await fetch(url, { method: 'POST', body: JSON.stringify({ key }) });
        return response.json();
      }),
    ),
  );

  expect(answers).toMatchObject([
    { average: 100, burst: 200, period: '1s', tenant_key: 'pro-acme' },
    { average: 10, period: '1s', tenant_key: 'ann' },
  ]);
});
