import { createLimiter, tokenBucket, type Policy } from 'spillgate';
import { describe, expect, test } from 'vitest';
import type { ExternalLimits, LimitsQuestion, LimitsSource } from '../../src/external/limits-source.ts';
import { facts, gateOf, statusOf, type TestGate } from './facts.ts';

const NOTHING: ExternalLimits = {
  step: 'service',
  policies: [],
  tenantKey: undefined,
  cost: undefined,
  failurePolicy: undefined,
  failureCode: undefined,
  backendUrl: undefined,
  requestTimeoutMs: undefined,
};

const EXTERNAL = 'external: { enabled: true, http: { url: "http://limits.test/" } }';
const HOURLY = (average: number, name = 'external'): Policy => tokenBucket({ name, average, period: '1h' });

function withAnswer(
  answer: Partial<ExternalLimits>,
  yaml = `  ${EXTERNAL}\n`,
): TestGate & { readonly questions: readonly LimitsQuestion[] } {
  const questions: LimitsQuestion[] = [];
  const limitsSource: LimitsSource = {
    limitsFor: (question) => {
      questions.push(question);
      return { ...NOTHING, ...answer };
    },
    close: async () => undefined,
  };
  return { ...gateOf(yaml, { limitsSource }), questions };
}

describe('limits of the external service', () => {
  test('stand in place of the configured ones', () => {
    const { ask, questions } = withAnswer(
      { policies: [HOURLY(2)] },
      `  average: 1\n  period: 1h\n  ${EXTERNAL}\n`,
    );

    expect([ask(), ask(), ask()].map(statusOf)).toEqual([200, 200, 429]);
    expect(questions[0]).toMatchObject({ key: '203.0.113.7', method: 'GET', path: '/' });
  });

  test('none means unlimited, and the request still goes where the service says', () => {
    const { ask } = withAnswer(
      { backendUrl: 'http://tenant.test', requestTimeoutMs: 250 },
      `  average: 1\n  ${EXTERNAL}\n`,
    );

    expect([ask(), ask(), ask()].map(statusOf)).toEqual([200, 200, 200]);
    expect(ask()).toMatchObject({
      backendUrl: 'http://tenant.test',
      timeoutMs: 250,
      detail: { reason: 'unlimited' },
    });
  });

  test('a tenant key counts instead of the key of the request, for all who share it', () => {
    const { ask } = withAnswer({ policies: [HOURLY(1)], tenantKey: 'acme', backendUrl: 'http://acme.test' });

    const [first, second] = [ask({ address: '198.51.100.1' }), ask({ address: '198.51.100.2' })];

    expect(first).toMatchObject({
      admitted: true,
      backendUrl: 'http://acme.test',
      detail: { keys: ['acme'] },
    });
    expect(statusOf(second)).toBe(429);
  });

  test('static: the configured limits hold', () => {
    const { ask } = withAnswer(
      { step: 'static', policies: undefined },
      `  average: 1\n  period: 1h\n  ${EXTERNAL}\n`,
    );

    expect([ask(), ask()].map(statusOf)).toEqual([200, 429]);
    expect(ask().detail.decision?.policy).toBe('default');
  });

  test('the service may set the cost', () => {
    const { ask } = withAnswer({ policies: [HOURLY(10)], cost: 5 });

    expect([ask(), ask(), ask()].map(statusOf)).toEqual([200, 200, 429]);
  });

  test('a policy that the rule gives a key of its own holds beside them', () => {
    const { ask } = withAnswer(
      { policies: [HOURLY(100)], tenantKey: 'acme' },
      `  ${EXTERNAL}\n  policies: { login: { average: 1, period: 1h } }
  rules: [{ name: login, match: { path: /login }, policies: [{ policy: login, key: clientIP }] }]\n`,
    );

    const rulings = [ask({ path: '/login' }), ask({ path: '/login' })];

    expect(rulings.map(statusOf)).toEqual([200, 429]);
    expect(rulings[0]?.detail.keys).toEqual(['acme', '203.0.113.7']);
  });

  test.each([
    ['a key that looks like an address', undefined],
    ['a tenant that is called like an address', '203.0.113.7'],
  ])('%s does not stand in for the policy of that name which counts addresses', (_, tenantKey) => {
    const { ask } = withAnswer(
      { policies: [HOURLY(100, 'login')], tenantKey },
      `  ${EXTERNAL}\n  key_strategy: { type: header, header_name: X-Tenant }
  policies: { login: { average: 1, period: 1h } }
  rules: [{ name: login, match: { path: /login }, policies: [{ policy: login, key: clientIP }] }]\n`,
    );
    const asked = { path: '/login', headers: [['X-Tenant', '203.0.113.7']] } as const;

    expect([ask(asked), ask(asked)].map(statusOf)).toEqual([200, 429]);
  });

  test('a policy that the configuration has too counts in the same state, whoever names it', () => {
    let policies: readonly Policy[] | undefined = [HOURLY(2, 'login')];
    const limitsSource: LimitsSource = {
      limitsFor: () => ({ ...NOTHING, policies }),
      close: async () => undefined,
    };
    const { ask } = gateOf(
      `  ${EXTERNAL}\n  policies: { login: { average: 2, period: 1h } }
  rules: [{ name: login, key: { type: header, header_name: X-Tenant }, policies: [login] }]\n`,
      { limitsSource },
    );
    const asked = { headers: [['X-Tenant', 'ann']] } as const;
    expect([ask(asked), ask(asked)].map(statusOf)).toEqual([200, 200]);

    policies = undefined;

    expect(statusOf(ask(asked))).toBe(429);
  });

  test('more policies than can be met at once are not an answer: the configured ones hold', () => {
    const policies = Array.from({ length: 32 }, (_, at) => HOURLY(100, `p${at}`));
    const { ask, errors } = withAnswer(
      { policies },
      `  ${EXTERNAL}\n  failure_policy: passThrough\n  policies: { login: { average: 1, period: 1h } }
  rules: [{ name: login, match: { path: /login }, policies: [{ policy: login, key: clientIP }] }]\n`,
    );

    expect([ask({ path: '/login' }), ask({ path: '/login' })].map(statusOf)).toEqual([200, 429]);
    expect(ask({ path: '/' }).detail.keys).toHaveLength(32);
    expect(errors).toHaveLength(2);
  });

  test('is not asked for rules that limit nothing, for listed clients and without a key', () => {
    const { ask, questions } = withAnswer(
      {},
      `  ${EXTERNAL}\n  key_strategy: { type: header, header_name: X-Tenant }\n  allow: { keys: [friend] }\n  deny: { keys: [foe] }
  rules: [{ name: health, match: { path: /healthz } }]\n`,
    );

    const statuses = [
      ask({ path: '/healthz' }),
      ask({ headers: [['X-Tenant', 'friend']] }),
      ask({ headers: [['X-Tenant', 'foe']] }),
      ask({}),
    ].map(statusOf);

    expect(statuses).toEqual([200, 200, 403, 400]);
    expect(questions).toEqual([]);
  });

  test('the service gets the secret that it has to know; nobody else does', () => {
    const { ask, questions } = withAnswer(
      { policies: [HOURLY(5)] },
      `  ${EXTERNAL}\n  key_strategy: { type: header, header_name: Authorization }\n`,
    );

    const ruling = ask({ headers: [['Authorization', 'Bearer sesame']] });

    expect(questions[0]?.key).toBe('Bearer sesame');
    expect(JSON.stringify(ruling)).not.toContain('sesame');
  });

  test('an answer that takes time is waited for', async () => {
    const limitsSource: LimitsSource = {
      limitsFor: async () => ({ ...NOTHING, policies: [HOURLY(1)] }),
      close: async () => undefined,
    };
    const { gate } = gateOf(`  ${EXTERNAL}\n`, { limitsSource });

    expect([await gate.decide(facts()), await gate.decide(facts())].map(statusOf)).toEqual([200, 429]);
  });

  test('a source that breaks its promise and rejects is answered by the failure policy', async () => {
    const limitsSource: LimitsSource = {
      limitsFor: async () => Promise.reject(new Error('no')),
      close: async () => undefined,
    };
    const { gate, errors } = gateOf(`  ${EXTERNAL}\n  failure_policy: failClosed\n  failure_code: 500\n`, {
      limitsSource,
    });

    expect(statusOf(await gate.decide(facts()))).toBe(500);
    expect(errors).toHaveLength(1);
  });
});

describe('the failure policy of the service', () => {
  const down = createLimiter({
    store: {
      check: async () => Promise.reject(new Error('down')),
      peek: async () => Promise.reject(new Error('down')),
      forget: async () => undefined,
      health: async () => ({ status: 'down', nodes: [] }),
      close: async () => undefined,
    },
  });
  const ruled = async (answer: Partial<ExternalLimits>, yaml: string): Promise<number> => {
    const limitsSource: LimitsSource = {
      limitsFor: () => ({ ...NOTHING, policies: [HOURLY(5)], ...answer }),
      close: async () => undefined,
    };
    const { gate } = gateOf(`rate_limit:\n  ${EXTERNAL}\n${yaml}redis: {}\n`, {
      limitsSource,
      limiter: down,
    });
    return statusOf(await gate.decide(facts()));
  };

  test('may be stricter than the configuration', async () => {
    expect(
      await ruled({ failurePolicy: 'failClosed', failureCode: 502 }, '  failure_policy: passThrough\n'),
    ).toBe(502);
  });

  test('may be laxer than the local fallback', async () => {
    expect(await ruled({ failurePolicy: 'passThrough' }, '')).toBe(200);
  });

  test('does not open a policy that the rule gives a key of its own', async () => {
    const external = tokenBucket({ name: 'x', average: 5, period: '1h', failurePolicy: 'passThrough' });
    const limitsSource: LimitsSource = {
      limitsFor: () => ({ ...NOTHING, policies: [external], failurePolicy: 'passThrough' }),
      close: async () => undefined,
    };
    const { gate } = gateOf(
      `rate_limit:\n  ${EXTERNAL}\n  policies: { login: { average: 1, period: 1h } }
  rules: [{ name: login, policies: [{ policy: login, key: clientIP }] }]\nredis: {}\n`,
      { limitsSource, limiter: down },
    );

    expect([await gate.decide(facts()), await gate.decide(facts())].map(statusOf)).toEqual([200, 429]);
  });

  test.each([
    ['of the configuration', '  failure_policy: failClosed\n  failure_code: 503\n'],
    [
      'of a policy of the rule',
      '  failure_code: 503\n  policies: { p: { average: 5, failure_policy: failClosed } }\n  rules: [{ name: r, policies: [p] }]\n',
    ],
  ])('never loosens failClosed %s', async (_, yaml) => {
    expect(await ruled({ failurePolicy: 'passThrough' }, yaml)).toBe(503);
    expect(await ruled({ failurePolicy: 'inMemoryFallback' }, yaml)).toBe(503);
  });
});
