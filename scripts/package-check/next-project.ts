// Applications of Next.js: limits in memory, on Redis, in the proxy and in both places; and the files of docs/next.md.
import { readFileSync } from 'node:fs';

const LIMITS = `
import { createLimiter, tokenBucket } from 'spillgate';
import { rateLimit } from 'spillgate/fetch';
import { redisStore } from 'spillgate/redis';

const clientAddress = { trustedProxies: { hops: 1 } };
const once = (name) => tokenBucket({ name, average: 1, period: '1h' });

export const inMemory = rateLimit({ limiter: createLimiter(), policies: once('memory'), clientAddress });
export const ofRoute = rateLimit({ limiter: createLimiter(), policies: once('route'), clientAddress });

const store = redisStore({ url: 'redis://127.0.0.1:' + process.env.REDIS_PORT, prefix: 'next:' });
const shared = createLimiter({ store, deadlineMs: 10000, failurePolicy: 'failClosed' });
export const onRedis = rateLimit({ limiter: shared, policies: once('redis'), clientAddress });
`;

const PROXY = `
import { NextResponse } from 'next/server';
import { createLimiter, tokenBucket } from 'spillgate';
import { rateLimit } from 'spillgate/fetch';

const options = { limiter: createLimiter(), clientAddress: { trustedProxies: { hops: 1 } } };
const all = tokenBucket({ name: 'proxy', average: 100, period: '1h' });
const limit = rateLimit({ ...options, policies: all });
const silent = rateLimit({ ...options, policies: all, headers: 'none' });
const goOn = () => NextResponse.next();
const limited = limit(goOn);
const silently = silent(goOn);

export const proxy = (request) => (request.nextUrl.pathname === '/api/both' ? limited(request) : silently(request));
export const config = { matcher: ['/api/both', '/api/silent'] };
`;

function route(limit: string): string {
  return `
import { ${limit} } from '../../../limits';
export const dynamic = 'force-dynamic';
export const GET = ${limit}(() => Response.json({ hello: 'world' }));
`;
}

/** Keeps the settings of the repository around it out. */
const SETTINGS = { 'next.config.mjs': 'export default { turbopack: { root: import.meta.dirname } };\n' };
const PAGES = {
  'app/layout.js':
    'export default function Layout({ children }) { return <html><body>{children}</body></html>; }\n',
  'app/page.js': 'export default function Page() { return <p>hello</p>; }\n',
};

const PROJECT: Readonly<Record<string, string>> = {
  ...SETTINGS,
  ...PAGES,
  'jsconfig.json': '{}\n',
  'limits.js': LIMITS,
  'proxy.js': PROXY,
  'app/api/memory/route.js': route('inMemory'),
  'app/api/redis/route.js': route('onRedis'),
  'app/api/both/route.js': route('ofRoute'),
  'app/api/silent/route.js': route('ofRoute'),
};

export interface NextRequestCheck {
  readonly path: string;
  /** The statuses of two requests of one client. */
  readonly statuses: readonly number[];
  /** What `RateLimit-Policy` of the first says. */
  readonly policies: string;
}

/** What the routes have to answer. The headers of the proxy replace those of a route: `docs/next.md` says so. */
const REQUESTS: readonly NextRequestCheck[] = [
  { path: '/api/memory', statuses: [200, 429], policies: '"memory";q=1;w=3600' },
  { path: '/api/redis', statuses: [200, 429], policies: '"redis";q=1;w=3600' },
  { path: '/api/both', statuses: [200, 429], policies: '"proxy";q=100;w=3600' },
  { path: '/api/silent', statuses: [200, 429], policies: '"route";q=1;w=3600' },
];

/** The blocks of the page whose first line names a file, by that name. */
function filesOfPage(): Readonly<Record<string, string>> {
  const page = readFileSync('docs/next.md', 'utf8');
  const blocks = page.matchAll(/^```ts[^\n]*\n\/\/ ([^\s;]+)(.*?)^```$/gms);
  return Object.fromEntries([...blocks].map(([, path = '', text = '']) => [path, `//${text}`]));
}

interface NextApplication {
  readonly name: string;
  readonly files: Readonly<Record<string, string>>;
  readonly requests: readonly NextRequestCheck[];
}

export const NEXT_APPLICATIONS: readonly NextApplication[] = [
  { name: 'limits everywhere', files: PROJECT, requests: REQUESTS },
  {
    name: 'docs/next.md',
    files: { ...SETTINGS, ...PAGES, ...filesOfPage() },
    requests: [
      { path: '/api/hello', statuses: [200, 200], policies: '"all";q=600;w=60' },
      { path: '/api/items/7', statuses: [200, 200], policies: '"all";q=600;w=60' },
    ],
  },
];
