// What explain says about a request is what the gateway then does with it, whatever the configuration is.
import * as fc from 'fast-check';
import { createLimiter } from 'spillgate';
import { virtualClock } from 'spillgate/testing';
import { expect, test } from 'vitest';
import type { MadeUpRequest } from '../../../src/admin/control.ts';
import { UNKNOWN_KEYS } from '../../../src/config/schema/key-names.ts';
import { loadConfig } from '../../../src/index.ts';
import { readingRules, readRequest } from '../../../src/proxy/request/read-request.ts';
import { createPolicies } from '../../../src/rules/compiled-rule.ts';
import { explanation, type Explanation } from '../../../src/rules/explain/explanation.ts';
import { createRuleEngine } from '../../../src/rules/rule-engine.ts';
import { RequestExplainer, madeUpHead } from '../../../src/runtime/request-explainer.ts';

const CONFIGURATIONS = 500;
const SILENT = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

const key = fc.constantFrom<object>(
  { type: 'clientIP' },
  { type: 'header', header_name: 'X-Tenant' },
  { type: 'header', header_name: 'X-Tenant', on_missing: 'clientIP' },
  { type: 'header', header_name: 'Authorization' },
  { type: 'global', global_key: 'everyone' },
  { type: 'composite', parts: [{ type: 'clientIP' }, { type: 'header', header_name: 'X-Plan' }] },
);

const policies = fc.record({
  bucket: fc.record({
    average: fc.integer({ min: 1, max: 5 }),
    burst: fc.integer({ min: 1, max: 5 }),
    period: fc.constantFrom('1s', '1m'),
  }),
  window: fc.record({
    algorithm: fc.constantFrom('fixedWindow', 'slidingWindowLog', 'slidingWindowCounter'),
    quota: fc.integer({ min: 1, max: 4 }),
    window: fc.constantFrom('10s', '1h'),
  }),
  queue: fc.record({
    algorithm: fc.constant('leakyBucket'),
    average: fc.integer({ min: 1, max: 3 }),
    max_delay: fc.constantFrom('1s', '3s'),
  }),
});

const list = fc.record({
  cidrs: fc.subarray(['192.0.2.0/24', '203.0.113.7'], { maxLength: 1 }),
  keys: fc.subarray(['acme', 'Bearer one'], { maxLength: 1 }),
});

const rule = fc.record(
  {
    match: fc.record(
      {
        path: fc.subarray(['/login', '/api/**', '/users/{id}', '/'], { minLength: 1 }),
        method: fc.subarray(['GET', 'POST'], { minLength: 1 }),
        host: fc.subarray(['example.com', '*.example.org'], { minLength: 1 }),
        header: fc.constantFrom({ 'X-Plan': 'free' }, { 'X-Tenant': '*' }),
        lenient_path: fc.boolean(),
      },
      { requiredKeys: [] },
    ),
    key,
    policies: fc.array(
      fc.record({ policy: fc.constantFrom('bucket', 'window', 'queue'), shadow: fc.boolean() }),
      { maxLength: 3 },
    ),
    cost: fc.integer({ min: 1, max: 3 }),
    shadow: fc.boolean(),
    allow: list,
    deny: list,
  },
  { requiredKeys: ['policies'] },
);

const configuration = fc
  .record({
    average: fc.constantFrom(0, 1, 3),
    key_strategy: key,
    policies,
    rules: fc.array(rule, { maxLength: 4 }),
    allow: list,
    deny: list,
    trusted: fc.boolean(),
  })
  .map(({ trusted, rules, ...limits }) =>
    JSON.stringify({
      server: { client_address: { trusted_proxies: trusted ? ['127.0.0.1'] : [] } },
      rate_limit: { ...limits, rules: rules.map((each, at) => ({ name: `rule-${at}`, ...each })) },
    }),
  );

const request: fc.Arbitrary<MadeUpRequest> = fc.record(
  {
    method: fc.constantFrom('GET', 'POST', 'HEAD', 'get'),
    path: fc.constantFrom(
      '/',
      '/login',
      '/LOGIN/',
      '/api/x?y=1',
      '/users/7',
      '/users/a%2Fb',
      'nothing',
      '/%zz',
    ),
    host: fc.constantFrom('example.com', 'a.example.org', 'other'),
    client: fc.constantFrom('127.0.0.1', '192.0.2.9', '203.0.113.7', '2001:db8::1'),
    headers: fc.subarray<readonly [string, string]>([
      ['X-Tenant', 'acme'],
      ['X-Tenant', 'other'],
      ['X-Plan', 'free'],
      ['Authorization', 'Bearer one'],
      ['X-Forwarded-For', '203.0.113.7'],
    ]),
  },
  { requiredKeys: ['method', 'path'] },
);

/** What both must say alike. */
function told(story: Explanation): object {
  const {
    outcome,
    status,
    reason,
    client,
    rule: matched,
    rules,
    keys,
    policies: asked,
    toBeAdmitted,
  } = story;
  return {
    outcome,
    status,
    reason,
    client,
    rule: matched,
    rules,
    keys,
    policies: asked.map(numbersOf),
    toBeAdmitted,
  };
}

/** The moment at which it is full again is of the clock of the machine. */
function numbersOf(story: Explanation['policies'][number]): object {
  return { ...story, fullAgainAt: undefined, resetAfterMs: undefined };
}

test(`the story of a request agrees with what the gateway then does, ${CONFIGURATIONS} times`, async () => {
  let denied = 0;
  let tried = 0;
  await fc.assert(
    fc.asyncProperty(
      configuration,
      fc.array(request, { minLength: 8, maxLength: 14 }),
      async (text, requests) => {
        const loaded = loadConfig({ file: { path: 'random.yaml', text } });
        // Some mistakes are only known once all of it is there; such a configuration never runs.
        fc.pre(loaded.ok);
        const { config } = loaded;
        const clock = virtualClock();
        const limiter = createLimiter({ clock });
        const made = createPolicies(config);
        const explainer = new RequestExplainer(SILENT);
        explainer.follow(
          {
            config,
            policies: made,
            limiter: { limiter },
            limitsSource: undefined,
            identifier: undefined,
            keys: UNKNOWN_KEYS,
          },
          { generation: 7, loadedAt: new Date(0) },
        );
        const engine = createRuleEngine(config, {
          limiter,
          policies: made,
          log: SILENT,
          onOutcome: (facts, outcome) => explainer.history.record(facts, outcome, config),
        });

        for (const [at, asked] of requests.entries()) {
          const story = explanation.parse(await explainer.explainMadeUp(asked));
          const read = readRequest(madeUpHead(asked), `request-${at}`, readingRules(config));
          tried += 1;
          if (typeof read === 'string') {
            expect(story).toMatchObject({ outcome: 'denied', reason: read });
            continue;
          }
          const outcome = await engine.decide(read.facts, { waits: (turn) => turn.cancel() });
          const kept = explanation.parse(explainer.explainKept(`request-${at}`));

          expect(story.outcome === 'denied').toBe(!outcome.admitted);
          expect(story.rule).toBe(outcome.detail.rule);
          expect(story.rules.find(({ matched }) => matched)?.rule).toBe(outcome.detail.rule);
          expect(told(kept)).toEqual(told(story));
          expect(kept).toMatchObject({ recorded: true, decidedBy: { generation: 7 } });
          expect(JSON.stringify(kept)).not.toContain('Bearer one');
          if (!outcome.admitted) denied += 1;
          clock.advance(300_000);
        }
      },
    ),
    { numRuns: CONFIGURATIONS },
  );
  // Neither kind may be a rarity, or little was shown.
  expect(denied).toBeGreaterThan(tried / 10);
  expect(denied).toBeLessThan((tried * 9) / 10);
});
