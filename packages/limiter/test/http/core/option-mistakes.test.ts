import { expect, test } from 'vitest';
import { createLimiter, LimiterError, tokenBucket } from '../../../src/index.ts';
import { rateLimit as expressRateLimit } from '../../../src/adapters/express.ts';
import { rateLimit as nodeRateLimit } from '../../../src/adapters/node.ts';
import { HttpLimiter } from '../../../src/http/index.ts';
import { untyped } from '../../unit/bad-input/row.ts';

const limiter = createLimiter();
const policies = tokenBucket({ name: 'api', average: 1, period: '1s' });
const KEY =
  "expected 'address', { header: 'x-api-key' }, { cookie: 'session' }, { query: 'tenant' }, a function of the request, or a list of these";

const MISTAKES: readonly (readonly [options: unknown, message: string])[] = [
  [undefined, 'The options of rateLimit() are undefined; expected an object with limiter, policies, key'],
  [{ polices: [] }, 'do not include "polices"; accepted are limiter, policies'],
  [{ limiter: undefined }, 'limiter is undefined; expected what createLimiter() returns'],
  [{ limiter: null }, 'limiter is null; expected what createLimiter() returns'],
  [{ limiter: createLimiter }, 'limiter is a function; expected what createLimiter() returns'],
  [{ limiter: {} }, 'limiter is an object; expected what createLimiter() returns'],
  [{ policies: undefined }, 'policies holds undefined; expected policies such as tokenBucket()'],
  [{ policies: null }, 'policies holds null; expected policies such as tokenBucket()'],
  [{ policies: 'api' }, 'policies holds "api"; expected policies such as tokenBucket()'],
  [{ policies: [] }, 'policies is an empty list; name at least one policy'],
  [{ policies: [policies, null] }, 'policies holds null'],
  [
    { policies: policies.for('ann') },
    'The choices of policies do not include "cost"; accepted are policy, key',
  ],
  [{ policies: [{ policy: policies }] }, `The key of a policy is undefined; ${KEY}`],
  [{ policies: { policy: policies, key: 'x' } }, `The key of a policy is "x"; ${KEY}`],
  [{ policies: { policy: 'api', key: 'address' } }, 'policies holds an object'],
  [{ policies: { policy: policies, key: 'address', cost: 1 } }, 'do not include "cost"'],
  [{ key: 'ip' }, `key is "ip"; ${KEY}`],
  [{ key: null }, `key is null; ${KEY}`],
  [{ key: { cookie: '' } }, `key is an object; ${KEY}`],
  [{ key: { cookie: 'a=b' } }, `key is an object; ${KEY}`],
  [{ key: { query: '' } }, `key is an object; ${KEY}`],
  [{ key: { query: 'a', cookie: 'b' } }, `key is an object; ${KEY}`],
  [{ key: [] }, `key is an array of 0; ${KEY}`],
  [{ key: ['address', 'user'] }, `key is an array of 2; ${KEY}`],
  [{ key: {} }, `key is an object; ${KEY}`],
  [{ key: { header: 7 } }, `key is an object; ${KEY}`],
  [{ key: { header: '' } }, `key is an object; ${KEY}`],
  [{ key: { header: 'x api key' } }, `key is an object; ${KEY}`],
  [{ missingKey: 'ignore' }, 'missingKey is "ignore"; choose one of "reject", "address"'],
  [{ cost: -1 }, 'cost is -1; expected an integer >= 0, or a function'],
  [{ cost: 1.5 }, 'cost is 1.5; expected an integer >= 0, or a function'],
  [{ cost: '1' }, 'cost is "1"; expected an integer >= 0, or a function'],
  [{ cost: 2 ** 53 }, 'expected an integer >= 0, or a function'],
  [{ settle: 5 }, 'settle is 5; expected a function'],
  [{ onSettleError: 'log' }, 'onSettleError is "log"; expected a function'],
  [{ count: 'failure' }, 'count is "failure"; choose one of "failures", "successes"'],
  [{ count: 'failures', settle: () => 1 }, 'settle and count are both set'],
  [{ skip: true }, 'skip is true; expected a function'],
  [{ override: {} }, 'override is an object; expected a function'],
  [{ onDecision: {} }, 'onDecision is an object; expected a function'],
  [{ onLimited: 'log' }, 'onLimited is "log"; expected a function'],
  [{ onProxyWarning: 'log' }, 'onProxyWarning is "log"; expected a function'],
  [{ answer: 'html' }, 'answer is "html"; choose one of "problem", "json"'],
  [{ shadow: 'yes' }, 'shadow is "yes"; choose one of true, false, "headers"'],
  [{ partitionKey: 1 }, 'partitionKey is 1; choose one of true, false'],
  [{ exposeHeaders: '*' }, 'exposeHeaders is "*"; choose one of true, false'],
  [{ headers: 'drft' }, 'headers is "drft"; choose one or a list of'],
  [{ failurePolicy: 'open' }, 'failurePolicy is "open"; choose one of "passThrough", "failClosed"'],
  [{ failureStatus: 200 }, 'failureStatus is 200; expected a status from 400 to 599'],
  [{ failureStatus: 399 }, 'expected a status from 400 to 599'],
  [{ failureStatus: 600 }, 'expected a status from 400 to 599'],
  [{ failureStatus: 503.5 }, 'expected a status from 400 to 599'],
  [{ failureStatus: '503' }, 'expected a status from 400 to 599'],
];

test.each(MISTAKES.map(([options, message]) => ({ options, message })))(
  'refused at once: $message',
  ({ options, message }) => {
    const given = options === undefined ? options : { limiter, policies, ...Object(options) };
    const refusal = thrownBy(() => new HttpLimiter(untyped(given)));

    expect(refusal).toBeInstanceOf(LimiterError);
    expect(refusal).toMatchObject({ code: 'INVALID_OPTION' });
    expect(String(refusal)).toContain(message);
  },
);

test.each([400, 503, 599])('failureStatus %d is accepted', (failureStatus) => {
  expect(() => new HttpLimiter({ limiter, policies, failureStatus })).not.toThrow();
});

test('onError is an option of the adapter that needs it, and of no other', () => {
  const options = { limiter, policies, onError: () => undefined };

  expect(() => nodeRateLimit(options)).not.toThrow();
  expect(() => expressRateLimit(options)).toThrow('do not include "onError"');
});

function thrownBy(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}
