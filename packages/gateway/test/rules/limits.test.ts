import { createLimiter, memoryStore, tokenBucket, type Limiter, type Store } from 'spillgate';
import { describe, expect, test, vi } from 'vitest';
import { facts, gateOf, problemOf, statusOf } from './facts.ts';

/** A limiter whose store fails whenever `state.down` says so. */
function limiterThatFails(failurePolicy: 'passThrough' | 'failClosed' | 'inMemoryFallback'): {
  limiter: Limiter;
  state: { down: boolean };
} {
  const memory = memoryStore();
  const state = { down: true };
  const ask = async <Answer>(answer: () => Promise<Answer>): Promise<Answer> => {
    if (state.down) throw new Error('the store is down');
    return answer();
  };
  const store: Store = {
    check: async (limits, cost) => ask(async () => memory.check(limits, cost)),
    peek: async (limits, cost) => ask(async () => memory.peek(limits, cost)),
    forget: async (limits) => memory.forget(limits),
    health: async () => memory.health(),
    close: async () => memory.close(),
  };
  return { limiter: createLimiter({ store, failurePolicy }), state };
}

describe('policies', () => {
  test('without rules and average nothing is limited, and nothing is said', () => {
    const { ask } = gateOf('server: { address: ":0" }');

    expect(ask()).toEqual({
      admitted: true,
      headers: [],
      connectionKey: undefined,
      backendUrl: undefined,
      timeoutMs: undefined,
      detail: {
        rule: undefined,
        keys: ['203.0.113.7'],
        decision: undefined,
        shadow: false,
        reason: 'unlimited',
      },
    });
  });

  test('average holds for requests that no rule matches, and the headers say how much is left', () => {
    const { ask } = gateOf('  average: 2\n  period: 1h\n');

    const [first, second, third] = [ask(), ask(), ask()];

    expect(first.headers).toContainEqual(['RateLimit', '"default";r=1;t=1800']);
    expect(second.headers).toContainEqual(['X-RateLimit-Remaining', '0']);
    expect(statusOf(third)).toBe(429);
    expect(third.headers).toContainEqual(['Retry-After', '1800']);
    expect(problemOf(third)).toMatchObject({
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      status: 429,
      'violated-policies': ['default'],
      retryAfterMs: 1_800_000,
    });
  });

  test('who waits as long as Retry-After says is admitted', () => {
    const { ask, clock } = gateOf('  average: 1\n  period: 3s\n');
    ask();
    const seconds = ask().headers.find(([name]) => name === 'Retry-After')?.[1];

    clock.advance(`${Number(seconds)}s`);

    expect(statusOf(ask())).toBe(200);
  });

  test('several policies, each with its own key: all are charged or none', async () => {
    const { ask, limiter } = gateOf(`  policies:
    user: { average: 10, period: 1h }
    tenant: { average: 1, period: 1h }
  rules:
    - name: r
      policies: [user, { policy: tenant, key: { type: header, header_name: X-Tenant } }]\n`);
    const headers = [['X-Tenant', 'acme']] as const;
    const admitted = ask({ headers });

    const refused = ask({ headers });

    expect(admitted.detail.keys).toEqual(['203.0.113.7', 'acme']);
    expect(refused.detail.decision).toMatchObject({ policy: 'tenant', allowed: false });
    expect(refused.detail.decision?.verdicts[0]).toMatchObject({ policy: 'user', remaining: 9 });
    await limiter.close();
  });

  test('a policy that a rule names twice for one key counts once', () => {
    const { ask } = gateOf(
      '  average: 2\n  period: 1h\n  rules: [{ name: r, policies: [default, { policy: default, key: clientIP }] }]\n',
    );

    expect([ask(), ask(), ask()].map(statusOf)).toEqual([200, 200, 429]);
  });

  test('cost is what a request spends', () => {
    const { ask } = gateOf(
      '  average: 10\n  period: 1h\n  rules: [{ name: r, policies: [default], cost: 4 }]\n',
    );

    expect([ask(), ask(), ask()].map(statusOf)).toEqual([200, 200, 429]);
  });

  test('a rule with no policies limits nothing, although there is a default', () => {
    const { ask } = gateOf(
      '  average: 1\n  period: 1h\n  rules: [{ name: health, match: { path: /healthz }, policies: [] }]\n',
    );

    expect([1, 2, 3].map(() => statusOf(ask({ path: '/healthz' })))).toEqual([200, 200, 200]);
  });

  test('a leaky bucket makes requests wait for their turn', async () => {
    vi.useFakeTimers();
    try {
      const { gate, clock } = gateOf(
        '  policies: { p: { algorithm: leakyBucket, average: 1, period: 1s, max_delay: 5s } }\n  rules: [{ name: r, policies: [p] }]\n',
      );
      expect(gate.decide(facts())).toMatchObject({ admitted: true });
      let turn: unknown;
      const second = Promise.resolve(gate.decide(facts())).then((ruling) => (turn = ruling));

      clock.advance('1s');
      await vi.advanceTimersByTimeAsync(999);
      expect(turn).toBeUndefined();
      await vi.advanceTimersByTimeAsync(1);

      expect(await second).toMatchObject({ admitted: true });
    } finally {
      vi.useRealTimers();
    }
  });

  test('tunnels are counted per key only where that is limited, and leaving the key out frees nobody', () => {
    const tenant = 'rate_limit: { key_strategy: { type: header, header_name: X-Tenant } }';
    const capped = gateOf(`server: { websocket: { max_per_key: 1 } }\n${tenant}`);
    const connectionKey = (headers: readonly (readonly [string, string])[]): string | undefined => {
      const ruling = capped.ask({ headers });
      return ruling.admitted ? ruling.connectionKey : undefined;
    };

    expect(connectionKey([])).toBe('@203.0.113.7');
    expect(connectionKey([['X-Tenant', 'acme']])).toBe('@15:header x-tenant,4:acme');
    expect(gateOf(tenant).ask()).toMatchObject({ connectionKey: undefined });
  });
});

describe('shadow', () => {
  const SHADOW = `  average: 1\n  period: 1h\n  key_strategy: { type: header, header_name: X-Tenant }
  rules: [{ name: r, policies: [default], shadow: true, deny: { keys: [evil] } }]\nlogging: { decision_log: denied }`;

  test('decides, counts and reports, and blocks nothing', () => {
    const { ask, records } = gateOf(SHADOW);

    const rulings = [
      ask({ headers: [['X-Tenant', 'a']] }),
      ask({ headers: [['X-Tenant', 'a']] }),
      ask({ headers: [['X-Tenant', 'evil']] }),
      ask({}),
      ask({
        headers: [
          ['X-Tenant', 'a'],
          ['X-Tenant', 'b'],
        ],
      }),
    ];

    expect(rulings.map(statusOf)).toEqual([200, 200, 200, 200, 200]);
    expect(rulings.flatMap(({ headers }) => headers)).toEqual([]);
    expect(rulings[1]?.detail).toMatchObject({ shadow: true, decision: { allowed: false } });
    expect(records.map(({ outcome, reason }) => [outcome, reason])).toEqual([
      ['wouldDeny', 'limits'],
      ['wouldDeny', 'denyList'],
      ['wouldDeny', 'missingKey'],
      ['wouldDeny', 'missingKey'],
    ]);
  });

  test('also when the store fails and the policy refuses', async () => {
    const { limiter } = limiterThatFails('failClosed');
    const { gate } = gateOf(`${SHADOW}\nredis: {}`, { limiter });

    expect(statusOf(await gate.decide(facts({ headers: [['X-Tenant', 'a']] })))).toBe(200);
  });
});

describe('a policy in shadow mode next to one that holds', () => {
  const FILE = `  policies: { holds: { average: 3, period: 1h }, strict: { average: 1, period: 1h } }
  rules: [{ name: r, policies: [holds, { policy: strict, shadow: true }] }]\nlogging: { decision_log: all }`;

  test('refuses nobody and says nothing, while the other goes on to hold', () => {
    const { ask } = gateOf(FILE);

    const rulings = [ask(), ask(), ask(), ask()];

    expect(rulings.map(statusOf)).toEqual([200, 200, 200, 429]);
    expect(JSON.stringify(rulings.map(({ headers }) => headers))).not.toContain('strict');
    expect(rulings[3]?.detail.decision?.policy).toBe('holds');
  });

  test('is in the log as what would be refused, and by which policy', () => {
    const { ask, records } = gateOf(FILE);

    for (let asked = 0; asked < 4; asked += 1) ask();

    expect(records.map(({ outcome, policy, limit }) => [outcome, policy, limit])).toEqual([
      ['allowed', 'holds', 3],
      ['wouldDeny', 'strict', 1],
      ['wouldDeny', 'strict', 1],
      ['denied', 'holds', 3],
    ]);
  });

  test('counts only what the others admit, as it will when it holds', async () => {
    const { ask, limiter } = gateOf(FILE.replace('strict: { average: 1', 'strict: { average: 9'));
    const strict = tokenBucket({ name: 'strict', average: 9, period: '1h' });

    for (let asked = 0; asked < 5; asked += 1) ask();

    expect((await limiter.peek(strict.for('203.0.113.7'))).remaining).toBe(6);
  });

  test('needs no key: without one it would refuse', () => {
    const { ask, records } = gateOf(
      FILE.replace('shadow: true', 'key: { type: header, header_name: X-Tenant }, shadow: true'),
    );

    expect(statusOf(ask())).toBe(200);
    expect(records[0]).toMatchObject({ outcome: 'wouldDeny', reason: 'missingKey', policy: undefined });
  });

  test('alone it limits nobody', () => {
    const { ask, records } = gateOf(FILE.replace('[holds, ', '['));

    expect([ask(), ask()].map(statusOf)).toEqual([200, 200]);
    expect(records.map(({ outcome }) => outcome)).toEqual(['allowed', 'wouldDeny']);
  });

  test.each(['', '\nredis: {}'])('a fault while it is asked changes nothing but the log%j', async (store) => {
    const fault = new Error('a fault');
    const limiter = Object.assign(createLimiter(), {
      checkSync: () => {
        throw fault;
      },
      check: () => Promise.reject(fault),
    });
    const { gate, errors } = gateOf(`${FILE.replace('[holds, ', '[')}${store}`, { limiter });

    expect(statusOf(await gate.decide(facts()))).toBe(200);
    expect(errors).toEqual(['a policy in shadow mode could not be asked']);
  });

  test('in a rule that is in shadow mode as a whole, the first to say no is in the log', () => {
    const { ask, records } = gateOf(
      FILE.replace('name: r,', 'name: r, shadow: true,').replace(
        'holds: { average: 3',
        'holds: { average: 1',
      ),
    );

    expect([ask(), ask()].map(statusOf)).toEqual([200, 200]);
    expect(records[1]).toMatchObject({ outcome: 'wouldDeny', policy: 'holds' });
  });

  test('a store that fails is no reason to count a refusal', async () => {
    const { limiter } = limiterThatFails('failClosed');
    const { gate, records } = gateOf(`${FILE.replace('[holds, ', '[')}\nredis: {}`, { limiter });

    expect(statusOf(await gate.decide(facts()))).toBe(200);
    expect(records.map(({ outcome }) => outcome)).toEqual(['allowed']);
  });
});

describe('while the store cannot decide', () => {
  const FILE = (failure: string): string =>
    `rate_limit: { average: 1, period: 1h, failure_policy: ${failure}, failure_code: 503 }\nredis: {}`;

  test('failClosed answers failure_code, without a word about limits', async () => {
    const { limiter } = limiterThatFails('failClosed');
    const { gate } = gateOf(FILE('failClosed'), { limiter });

    const ruling = await gate.decide(facts());

    expect(statusOf(ruling)).toBe(503);
    expect(ruling.headers).toEqual([['Retry-After', '1']]);
    expect(ruling.detail.reason).toBe('storeFailure');
  });

  test('passThrough admits everything', async () => {
    const { limiter } = limiterThatFails('passThrough');
    const { gate } = gateOf(FILE('passThrough'), { limiter });

    const rulings = await Promise.all([1, 2, 3].map(async () => gate.decide(facts())));

    expect(rulings.map(statusOf)).toEqual([200, 200, 200]);
    expect(rulings[0]?.headers).toEqual([]);
  });

  test('inMemoryFallback decides by the same policy', async () => {
    const { limiter } = limiterThatFails('inMemoryFallback');
    const { gate } = gateOf(FILE('inMemoryFallback'), { limiter });

    const rulings = [await gate.decide(facts()), await gate.decide(facts())];

    expect(rulings.map(statusOf)).toEqual([200, 429]);
  });

  test.each([
    ['passThrough', 200],
    ['failClosed', 503],
    ['inMemoryFallback', 503],
  ])('a limiter that cannot even fail properly: %s answers %i, and it is logged', async (failure, status) => {
    const limiter = createLimiter();
    await limiter.close();
    const { ask, errors } = gateOf(
      `rate_limit: { average: 1, failure_policy: ${failure}, failure_code: 503 }`,
      { limiter },
    );

    expect(statusOf(ask())).toBe(status);
    expect(errors).toEqual(['the limits of a request could not be checked']);
  });
});

describe('the decision log', () => {
  const RULE =
    'rate_limit: { average: 1, period: 1h, key_strategy: { type: header, header_name: X-Tenant } }\n';
  const twice = (level: string, tenant = 'acme'): readonly unknown[] => {
    const { ask, records } = gateOf(`${RULE}logging: { decision_log: ${level} }`);
    ask({ headers: [['X-Tenant', tenant]] });
    ask({ headers: [['X-Tenant', tenant]] });
    return records;
  };

  test.each([
    ['off', []],
    ['denied', ['denied']],
    ['all', ['allowed', 'denied']],
  ])('%s: %j', (level, outcomes) => {
    expect(twice(level)).toMatchObject(outcomes.map((outcome) => ({ outcome })));
  });

  test('a line says everything about a decision', () => {
    expect(twice('denied')).toEqual([
      {
        id: 'request-1',
        outcome: 'denied',
        reason: 'limits',
        rule: undefined,
        policy: 'default',
        keys: ['acme'],
        limit: 1,
        remaining: 0,
        retryAfterMs: 3_600_000,
        source: 'store',
        method: 'GET',
        path: '/',
      },
    ]);
  });

  test('keys are printable and short, whatever was sent', () => {
    const [record] = twice('denied', `\u001b[31m\u202e${'x'.repeat(5000)}`);

    expect(record).toMatchObject({
      keys: [expect.stringMatching(/^\\u\{1b\}\[31m\\u\{202e\}x{122}\.\.\.$/)],
    });
  });
});
