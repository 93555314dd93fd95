// What explain says is what a whole gateway then answers, also where no rule is asked: identity, maintenance, pages of
// other origins, requests that cannot be read.
import { createHash } from 'node:crypto';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { loadConfig } from '../../../src/index.ts';
import { explanation, type Explanation } from '../../../src/rules/explain/explanation.ts';
import { startOrigin } from '../../proxy/rig.ts';
import { runGateway, type HeardResponse, type RunningGateway } from '../../runtime/running-gateway.ts';

const CONFIGURATIONS = 500;
const hash = (secret: string): string => `sha256:${createHash('sha256').update(secret).digest('hex')}`;

const key = fc.constantFrom<object>(
  { type: 'clientIP' },
  { type: 'header', header_name: 'X-Tenant' },
  { type: 'apiKey', on_missing: 'clientIP' },
);

const rule = fc.record(
  {
    match: fc.constantFrom<object>({ path: '/api/**' }, { method: 'POST' }, { host: 'example.com' }, {}),
    key,
    // Nothing comes back while the test runs, so that a moment more or less makes no difference.
    policies: fc.subarray(['bucket', 'window'], { minLength: 1 }),
    shadow: fc.boolean(),
    deny: fc.constantFrom<object>({ cidrs: ['203.0.113.7'] }, { cidrs: ['127.0.0.1'] }, { cidrs: [] }),
  },
  { requiredKeys: ['match', 'policies'] },
);

const apiKeys = fc.constantFrom<object>({
  keys: [
    { name: 'ann', hash: hash('key-of-ann') },
    { name: 'old', hash: hash('key-of-old'), disabled: true },
  ],
});

const configuration = fc.record(
  {
    rules: fc.array(rule, { maxLength: 3 }),
    burst: fc.integer({ min: 1, max: 3 }),
    trusted: fc.boolean(),
    apiKeys,
    maintenance: fc.record({ enabled: fc.boolean(), allow: fc.subarray(['203.0.113.7', '127.0.0.1']) }),
    cors: fc.constantFrom<object>(
      { allowed_origins: ['https://app.example'], allowed_methods: ['GET', 'PUT'] },
      { allowed_origins: ['https://app.example'], handled_by: 'backend' },
    ),
  },
  { requiredKeys: ['rules', 'burst', 'trusted'] },
);

type Chosen = typeof configuration extends fc.Arbitrary<infer Value> ? Value : never;

function textOf(chosen: Chosen, backendUrl: string): string {
  const { rules, burst, trusted, apiKeys: keys, maintenance, cors } = chosen;
  return JSON.stringify({
    server: { client_address: { trusted_proxies: trusted ? ['loopback'] : [] } },
    backend: { url: backendUrl },
    ...(keys === undefined ? {} : { identity: { api_keys: keys } }),
    ...(maintenance === undefined ? {} : { maintenance }),
    ...(cors === undefined ? {} : { cors }),
    rate_limit: {
      policies: {
        bucket: { average: 1, burst, period: '100d' },
        window: { algorithm: 'slidingWindowLog', quota: burst, window: '30d' },
      },
      rules: rules.map((each, at) => ({ name: `rule-${at}`, ...each })),
    },
  });
}

const asked = fc.record({
  method: fc.constantFrom('GET', 'POST', 'OPTIONS', 'HEAD'),
  path: fc.constantFrom('/', '/api/x?y=1', '/api/x', '/users/7', '/%zz', '/a%00b', '/a%20b'),
  headers: fc.record(
    {
      host: fc.constantFrom('example.com', 'other.example', 'not a host'),
      'x-tenant': fc.constantFrom('acme', 'other'),
      'x-api-key': fc.constantFrom('key-of-ann', 'key-of-old', 'nobodys-key'),
      'x-forwarded-for': fc.constantFrom('203.0.113.7', '198.51.100.1'),
      origin: fc.constantFrom('https://app.example', 'https://evil.example'),
      'access-control-request-method': fc.constantFrom('GET', 'PUT', 'DELETE'),
    },
    { requiredKeys: ['host'] },
  ),
});

type Asked = typeof asked extends fc.Arbitrary<infer Value> ? Value : never;

async function explainMadeUp(
  running: RunningGateway,
  { method, path, headers }: Asked,
): Promise<Explanation> {
  const { status, body } = await running.askAdmin('/v1/explain', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ method, path, client: '127.0.0.1', headers: Object.entries(headers) }),
  });
  if (status !== 200) throw new Error(`explain answered ${status}: ${body}`);
  return explanation.parse(JSON.parse(body));
}

/** Undefined for those that are not kept: what could not be read, and some that were admitted. */
async function explainKept(
  running: RunningGateway,
  response: HeardResponse,
): Promise<Explanation | undefined> {
  const id = String(response.headers['x-request-id']);
  const { status, body } = await running.askAdmin(`/v1/explain/${id}`);
  return status === 200 ? explanation.parse(JSON.parse(body)) : undefined;
}

/** What a story says, apart from the moment and from what was spent meanwhile. */
function told({ outcome, status, reason, client, rule: matched, rules, keys }: Explanation): object {
  return { outcome, status, reason, client, rule: matched, rules, keys };
}

const SERVED = new Set([200, 204]);

test(
  `explain agrees with the answers of a gateway, ${CONFIGURATIONS} times`,
  { timeout: 600_000 },
  async () => {
    const origin = await startOrigin();
    const running = await runGateway(`backend: { url: "${origin.url}" }\nrate_limit: { average: 0 }\n`);
    const reasons = new Map<string, number>();
    await fc.assert(
      fc.asyncProperty(
        configuration,
        fc.array(asked, { minLength: 4, maxLength: 6 }),
        async (chosen, requests) => {
          const text = textOf(chosen, origin.url);
          fc.pre(loadConfig({ file: { path: 'random.yaml', text } }).ok);
          await running.reload(text);

          for (const request of requests) {
            const story = await explainMadeUp(running, request);
            const response = await running.ask(request.path, request);
            const kept = await explainKept(running, response);

            expect([story.outcome === 'denied', response.status]).toEqual([
              !SERVED.has(response.status),
              response.status,
            ]);
            if (story.outcome === 'denied') {
              expect(story.status).toBe(response.status);
              reasons.set(story.reason, (reasons.get(story.reason) ?? 0) + 1);
            }
            if (kept !== undefined) expect(told(kept)).toEqual(told(story));
            expect(JSON.stringify([story, kept])).not.toContain('key-of-ann');
          }
        },
      ),
      { numRuns: CONFIGURATIONS },
    );
    // Each of them was met, and more than once.
    const expected = [
      'limits',
      'denyList',
      'unidentified',
      'maintenance',
      'preflightRefused',
      'INVALID_TARGET',
      'INVALID_HOST',
    ];
    expect([...reasons].filter(([, times]) => times > 5).map(([reason]) => reason)).toEqual(
      expect.arrayContaining(expected),
    );
  },
);
