import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const PROGRAM = `
const limiter = createLimiter();
const api = tokenBucket({ name: 'api', average: 2, burst: 2, period: '1s' });
const allowed: boolean[] = [1, 2, 3].map(() => limiter.checkSync(api.for('k')).allowed);
console.log(allowed.join(','));
`;

/** No type package of Node or of a framework is installed there: the declarations have to do without. */
const SERVERS = `
import { createLimiter, tokenBucket } from 'spillgate';
import { rateLimit as forExpress } from 'spillgate/express';
import { compositeKey } from 'spillgate/http';
import { rateLimit as forNode } from 'spillgate/node';
const options = { limiter: createLimiter(), policies: tokenBucket({ name: 'api', average: 2, period: '1s' }) };
console.log(typeof forExpress(options), typeof forNode(options), compositeKey(['a', 'b']));
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
  'servers.mts': SERVERS,
  'client.mts': CLIENT,
  'testing.mts': `import * as testing from 'spillgate/testing';\nconsole.log(Object.keys(testing).length > 0);\n`,
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
  { program: 'out/servers.mjs', prints: 'function function 1:a,1:b' },
  { program: 'out/client.mjs', prints: '200 1' },
  { program: 'out/testing.mjs', prints: 'true' },
];

export async function writeConsumers(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await Promise.all(Object.entries(FILES).map(async ([name, text]) => writeFile(join(folder, name), text)));
}
