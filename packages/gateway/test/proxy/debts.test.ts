import { createLimiter, fixedWindow } from 'spillgate';
import { expect, test } from 'vitest';
import { gateOf } from '../rules/facts.ts';
import { eventually, exchange, startOrigin, startRig } from './rig.ts';

test.each([
  ['max_debt: 7', 17],
  ['max_debt: 0', 10],
  ['', 20],
])(
  'what was used beyond the limit is charged up to the debt that the policy allows (%s)',
  async (debt, charged) => {
    const limiter = createLimiter();
    const policy = `{ algorithm: fixedWindow, quota: 10, window: 365d${debt === '' ? '' : `, ${debt}`} }`;
    const rule =
      '{ name: all, key: { type: global, global_key: all }, policies: [tokens], ' +
      'settle: { type: header, header_name: X-Cost } }';
    const { gate } = gateOf(`\n  policies: { tokens: ${policy} }\n  rules: [${rule}]\n`, { limiter });
    const origin = await startOrigin((_request, response) =>
      response.writeHead(200, { 'X-Cost': '500' }).end(),
    );
    const rig = await startRig({ origin, rule: (facts, waiter) => gate.decide(facts, waiter) });

    await exchange(rig.port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    await eventually(() => rig.finished.length === 1);

    // A count survives a change of the quota, so a larger one shows all of it.
    const seen = fixedWindow({ name: 'tokens', quota: 1000, window: '365d' });
    await expect.poll(async () => 1000 - (await limiter.peek(seen.for('all'))).remaining).toBe(charged);
  },
);
