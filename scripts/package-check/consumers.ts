import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const PROGRAM = `
const limiter = createLimiter();
const api = tokenBucket({ name: 'api', average: 2, burst: 2, period: '1s' });
const allowed: boolean[] = [1, 2, 3].map(() => limiter.checkSync(api.for('k')).allowed);
console.log(allowed.join(','));
`;

/** What `require` and `import` give is the same: an error of one is an error of the other, and so is a limit. */
const ONE_INSTANCE = `
import spillgate = require('spillgate');
import prometheus = require('spillgate/prometheus');
async function main(): Promise<void> {
  const imported = await import('spillgate');
  const { collectMetrics } = await import('spillgate/prometheus');
  const login = imported.tokenBucket({ name: 'login', average: 1, period: '1s' });
  const { allowed } = spillgate.createLimiter().checkSync(login.for('ann'));
  console.log(imported.LimiterError === spillgate.LimiterError, collectMetrics === prometheus.collectMetrics, allowed);
}
void main();
`;

/** No type package of Node or of a framework is installed there: the declarations have to do without. */
const SERVERS = `
import { createLimiter, tokenBucket } from 'spillgate';
import { rateLimit as forExpress } from 'spillgate/express';
import { rateLimit as forFastify } from 'spillgate/fastify';
import { rateLimit as forFetch } from 'spillgate/fetch';
import { rateLimit as forHono } from 'spillgate/hono';
import { compositeKey } from 'spillgate/http';
import { rateLimit as forKoa } from 'spillgate/koa';
import { rateLimit as forNode } from 'spillgate/node';
const options = { limiter: createLimiter(), policies: tokenBucket({ name: 'api', average: 2, period: '1s' }) };
const adapters = [forExpress(options), forFastify(options), forHono(options), forKoa(options), forNode(options)];
console.log(...adapters.map((adapter) => typeof adapter), compositeKey(['a', 'b']));
const limit = forFetch({ ...options, peer: (_: Request, env: { ip: string }) => env.ip });
const handle: (request: Request, env: { ip: string }) => Promise<Response> = limit(() => new Response('hello'));
await handle(new Request('http://localhost/'), { ip: '192.0.2.1' });
`;

/** It needs a package that an application of NestJS has, and this one has not. */
const NEST = `
const entry: string = 'spillgate/nest';
const missing: unknown = await import(entry).catch((error: unknown) => error);
console.log(String(missing).includes("Cannot find package '@nestjs/common'"));
`;

const CLIENT = `
import { announcedLimits, politeFetch, type Fetch } from 'spillgate/client';
const answers = [new Response('', { status: 429, headers: { 'Retry-After': '1' } }), new Response('')];
const polite: typeof fetch & Fetch = politeFetch({
  sleep: async () => {},
  fetch: async () => answers.shift() ?? Response.error(),
});
const { status } = await polite('https://example.com/');
console.log(status, announcedLimits(new Headers({ RateLimit: '"a";r=1;t=2' })).quotas.length);
`;

const FILES: Readonly<Record<string, string>> = {
  'package.json': '{ "name": "consumer", "private": true, "type": "module" }\n',
  'esm.mts': `import { createLimiter, tokenBucket } from 'spillgate';\n${PROGRAM}`,
  'commonjs.cts': `import spillgate = require('spillgate');\nconst { createLimiter, tokenBucket } = spillgate;\n${PROGRAM}`,
  'one-instance.cts': ONE_INSTANCE,
  'servers.mts': SERVERS,
  'nest.mts': `${NEST}\nexport {};\n`,
  'client.mts': CLIENT,
  'simulate.mts': `import { tokenBucket } from 'spillgate';
import { simulate, type SimulationResult } from 'spillgate/simulate';
const api = tokenBucket({ name: 'api', average: 1, burst: 2, period: '1m' });
const result: SimulationResult = await simulate([0, 1, 2], { at: (ms) => ms, limits: () => api.for('ann'), instances: 2 });
console.log(result.requests, result.denied);
`,
  'testing.mts': `import * as testing from 'spillgate/testing';\nconsole.log(Object.keys(testing).length > 0);\n`,
  'internal.mts': `import { joinHostPort, splitHostPort } from 'spillgate/internal';\nconsole.log(joinHostPort(splitHostPort('[::1]:80')));\n`,
  // Neither prom-client nor OpenTelemetry is installed here: the entries and their types have to do without.
  'prometheus.mts': `import { collectMetrics, type PrometheusOptions } from 'spillgate/prometheus';
const options: Partial<PrometheusOptions> = { name: 'edge' };
console.log(typeof collectMetrics, options.name);
`,
  'opentelemetry.mts': `import { collectMetrics, globalMeter } from 'spillgate/opentelemetry';
const meter = await globalMeter();
console.log(typeof collectMetrics, meter === undefined);
`,
  // Nor is a Redis client.
  'fleet.mts': `import { joinFleet, type JoinFleetOptions } from 'spillgate/fleet';
const options: Pick<JoinFleetOptions, 'name'> = { name: 'billing' };
console.log(typeof joinFleet, options.name);
`,
  // Strict and without skipLibCheck: a mistake in the shipped declarations must show here.
  'tsconfig.json': JSON.stringify({
    compilerOptions: {
      target: 'es2023',
      module: 'nodenext',
      lib: ['es2023', 'dom'],
      types: [],
      strict: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: false,
      outDir: 'out',
      rootDir: '.',
    },
  }),
};

interface Consumer {
  /** The compiled file below the consumer's folder. */
  readonly program: string;
  readonly prints: string;
}

/** Programs an application could contain, after compilation, and what each must print. */
export const CONSUMERS: readonly Consumer[] = [
  { program: 'out/esm.mjs', prints: 'true,true,false' },
  { program: 'out/commonjs.cjs', prints: 'true,true,false' },
  { program: 'out/one-instance.cjs', prints: 'true true true' },
  { program: 'out/servers.mjs', prints: 'function function function function function 1:a,1:b' },
  { program: 'out/nest.mjs', prints: 'true' },
  { program: 'out/client.mjs', prints: '200 1' },
  { program: 'out/simulate.mjs', prints: '3 1' },
  { program: 'out/testing.mjs', prints: 'true' },
  { program: 'out/internal.mjs', prints: '[::1]:80' },
  { program: 'out/prometheus.mjs', prints: 'function edge' },
  { program: 'out/opentelemetry.mjs', prints: 'function true' },
  { program: 'out/fleet.mjs', prints: 'function billing' },
];

export async function writeConsumers(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await Promise.all(Object.entries(FILES).map(async ([name, text]) => writeFile(join(folder, name), text)));
}
