// Programs of applications as they are written for other runtimes, test runners and bundlers. Each prints what it must,
// or fails.

/**
 * Three checks of two tokens on the Redis server at `REDIS_PORT`, by the client package that the argument names, else
 * by whichever there is.
 */
const CHECK_ON_REDIS = `
async function main() {
  const store = redisStore({ url: 'redis://127.0.0.1:' + process.env.REDIS_PORT, clientPackage: process.argv[2] });
  const limiter = createLimiter({ store, deadlineMs: 10000, failurePolicy: 'failClosed' });
  const login = tokenBucket({ name: 'login', average: 2, period: '1h' });
  const key = 'ann' + Math.random();
  const decisions = [];
  for (let i = 0; i < 3; i += 1) decisions.push(await limiter.check(login.for(key)));
  console.log(...decisions.map(({ allowed, source }) => allowed + ' ' + source));
  if (decisions[0].cause !== undefined) console.log(String(decisions[0].cause));
  await limiter.close();
}
void main();
`;
export const CHECKED_ON_REDIS = 'true store true store false denialCache';

const IMPORTS = `
import { createLimiter, tokenBucket } from 'spillgate';
import { redisStore } from 'spillgate/redis';
`;
const REQUIRES = `
const { createLimiter, tokenBucket } = require('spillgate');
const { redisStore } = require('spillgate/redis');
`;

const ONE_INSTANCE = `
const required = require('spillgate');
const { collectMetrics } = require('spillgate/prometheus');
void (async () => {
  const imported = await import('spillgate');
  const prometheus = await import('spillgate/prometheus');
  console.log(required.LimiterError === imported.LimiterError, collectMetrics === prometheus.collectMetrics);
})();
`;

/**
 * Serves bodies of all kinds with and without limits: what arrives has to be the same, but for the headers of the
 * limits.
 */
const BODIES = `
import { createLimiter, tokenBucket } from 'spillgate';
import { rateLimit } from 'spillgate/fetch';
import { rateLimit as honoRateLimit } from 'spillgate/hono';
import { Hono } from 'hono';

const options = {
  limiter: createLimiter(),
  policies: tokenBucket({ name: 'api', average: 1000, period: '1s' }),
  key: { header: 'user-agent' },
};
const EMPTY = new Response(null, { status: 204 });
const bodies = {
  text: () => new Response('hello'),
  json: () => Response.json({ a: 1 }),
  bytes: () => new Response(new Uint8Array([1])),
  blob: () => new Response(new Blob(['p {}'], { type: 'text/css' })),
  untyped: () => new Response(new Blob(['x'])),
  form: () => new Response(new URLSearchParams('a=b')),
  stream: () => new Response(new ReadableStream({ start: (to) => (to.enqueue(new Uint8Array([65])), to.close()) })),
  fetched: () => fetch('data:text/plain,hi'),
  redirect: () => Response.redirect('http://localhost/elsewhere'),
  empty: () => EMPTY,
};
const plain = new Hono();
const limited = new Hono().use(honoRateLimit(options));
for (const app of [plain, limited]) {
  for (const [name, body] of Object.entries(bodies)) app.get('/' + name, () => body());
  app.get('/c.text', (c) => c.text('hello')).get('/c.json', (c) => c.json({})).get('/c.html', (c) => c.html('<p>'));
}
const limit = rateLimit(options);
const differences = [];
for (const [name, body] of Object.entries(bodies)) await compare(name, body, limit(body));
for (const { path } of plain.routes) await compare('Hono ' + path, plain.fetch, limited.fetch, path);
console.log(differences.length === 0 ? 'all the same' : differences.join('; '));

async function compare(name, plainly, limitedly, path = '/') {
  const [bare, first, second] = [await get(plainly, path), await get(limitedly, path), await get(limitedly, path)];
  for (const [what, expected] of Object.entries(bare.facts)) {
    for (const { facts } of [first, second]) {
      if (facts[what] !== expected) differences.push(name + ': ' + what + ' is ' + facts[what] + ' and not ' + expected);
    }
  }
  if (!/^"api";r=\\d+;t=\\d+$/.test(second.told ?? '')) differences.push(name + ' says ' + second.told);
}

async function get(handle, path) {
  const server = globalThis.Bun
    ? Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: handle })
    : Deno.serve({ port: 0, hostname: '127.0.0.1', onListen: () => undefined }, handle);
  const { port } = server.addr ?? server;
  const response = await fetch('http://127.0.0.1:' + port + path, { redirect: 'manual' });
  const { headers, status } = response;
  const facts = { status, type: headers.get('content-type'), length: headers.get('content-length'), body: await response.text() };
  await (server.shutdown ? server.shutdown() : server.stop(true));
  return { facts, told: headers.get('ratelimit') };
}
`;

const JEST_TEST = `
const { createLimiter, LimiterError, tokenBucket } = require('spillgate');
const { redisStore } = require('spillgate/redis');
test('limits in memory and on Redis', async () => {
  const login = tokenBucket({ name: 'login', average: 1, period: '1h' });
  expect(() => tokenBucket({})).toThrow(LimiterError);
  const url = 'redis://127.0.0.1:' + process.env.REDIS_PORT;
  for (const store of [undefined, redisStore({ url, prefix: 'jest' + Math.random() })]) {
    const limiter = createLimiter({ store, deadlineMs: 10000 });
    expect(await limiter.check(login.for('ann'))).toMatchObject({ allowed: true, degraded: false });
    expect(await limiter.check(login.for('ann'))).toMatchObject({ allowed: false, degraded: false });
    await limiter.close();
  }
});
`;

/** As `nest new` writes it, with limits. */
const NEST_TEST = `
import { Controller, Get, Module, type INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { createLimiter, tokenBucket } from 'spillgate';
import { Limit, RateLimitModule } from 'spillgate/nest';

const api = tokenBucket({ name: 'api', average: 2, period: '1h' });
const one = tokenBucket({ name: 'one', average: 1, period: '1h' });

@Controller()
class AppController {
  @Get()
  hello(): string {
    return 'hello';
  }

  @Limit(one)
  @Get('once')
  once(): string {
    return 'once';
  }
}

@Module({ imports: [RateLimitModule.forRoot({ limiter: createLimiter(), policies: api })], controllers: [AppController] })
class AppModule {}

describe('AppController (e2e)', () => {
  let app: INestApplication;

  beforeEach(async () => {
    const moduleFixture = await Test.createTestingModule({ imports: [AppModule] }).compile();
    app = moduleFixture.createNestApplication();
    await app.listen(0, '127.0.0.1');
  });
  afterEach(() => app.close());

  it('limits a route', async () => {
    const url = await app.getUrl();
    const statuses: number[] = [];
    for (const path of ['/once', '/once', '/', '/']) statuses.push((await fetch(url + path)).status);
    expect(statuses).toEqual([200, 429, 200, 429]);
  });
});
`;

const RUN_WEBPACK = `
const output = { path: __dirname + '/bundled', filename: 'webpack.cjs' };
require('webpack')({ mode: 'production', target: 'node', entry: './redis.mjs', output }, (error, stats) => {
  if (error ?? stats.hasErrors()) throw new Error(error ?? stats);
});
`;

const TSCONFIG = {
  compilerOptions: {
    target: 'es2023',
    module: 'commonjs',
    // What `nest new` and many older projects have: "exports" of packages are not read.
    moduleResolution: 'node10',
    experimentalDecorators: true,
    emitDecoratorMetadata: true,
    esModuleInterop: true,
    strict: true,
    skipLibCheck: true,
    types: ['node', 'jest'],
  },
};

/** By their paths below the project. */
export const RUNTIME_PROGRAMS: Readonly<Record<string, string>> = {
  'redis.mjs': IMPORTS + CHECK_ON_REDIS,
  'redis.cjs': REQUIRES + CHECK_ON_REDIS,
  'redis.ts': IMPORTS + CHECK_ON_REDIS.replace(', clientPackage: process.argv[2]', ''),
  'one-instance.cjs': ONE_INSTANCE,
  'bodies.mjs': BODIES,
  'tsconfig.json': JSON.stringify(TSCONFIG),
  'run-webpack.cjs': RUN_WEBPACK,
  'jest/plain.test.js': JEST_TEST,
  'jest/app.e2e-spec.ts': NEST_TEST,
  'jest.config.json': JSON.stringify({
    rootDir: 'jest',
    testRegex: String.raw`\.(test|e2e-spec)\.[jt]s$`,
    moduleFileExtensions: ['js', 'json', 'ts'],
    transform: { [String.raw`^.+\.ts$`]: ['ts-jest', { tsconfig: '<rootDir>/../tsconfig.json' }] },
    testEnvironment: 'node',
  }),
};
