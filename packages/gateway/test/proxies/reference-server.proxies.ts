// The same questions to envoyproxy/ratelimit and to our service with `compat: strict`: the same answers.
import { expect, test } from 'vitest';
import { descriptor, type RlsCall } from '../service/rls-client.ts';
import { exampleFiles, filesOf, startBoth } from './reference-server.ts';

interface Scenario {
  readonly name: string;
  readonly files: () => string;
  /** Each is asked so often, one after the other. */
  readonly questions: readonly (readonly [times: number, call: RlsCall])[];
}

const rl = (...descriptors: RlsCall['descriptors']): RlsCall => ({ domain: 'rl', descriptors });
const shop = (...descriptors: RlsCall['descriptors']): RlsCall => ({ domain: 'shop', descriptors });

const EXAMPLE: readonly Scenario[] = [
  {
    name: 'its example: keys, values and depth',
    files: exampleFiles,
    questions: [
      [3, rl(descriptor('foo=x'))],
      [3, rl(descriptor('foo=y'))],
      [4, rl(descriptor('foo=x,bar=z'))],
      [2, rl(descriptor('foo=x,bar=bkthomps'))],
      [2, rl(descriptor('foo=x,bar=banned'))],
      [1, rl(descriptor('foo=x,baz=once'))],
      [4, rl(descriptor('foo=x,baz=not-so-shady'))],
      [3, rl(descriptor('unspec=x'))],
      [2, rl(descriptor('source_cluster=proxy'))],
      [2, rl(descriptor('source_cluster=proxy,destination_cluster=mock'))],
      [2, rl(descriptor('source_cluster=proxy,destination_cluster=unknown'))],
      [2, rl(descriptor('nothing=here'))],
      [1, { domain: 'mongo_cps', descriptors: [descriptor('database=users')] }],
    ],
  },
  {
    name: 'its example: shadow mode, unlimited, and limits that replace others',
    files: exampleFiles,
    questions: [
      [5, rl(descriptor('foo=x,baz=shady'))],
      [2, rl(descriptor('foo=x,bay=z'))],
      [2, rl(descriptor('qux=z'))],
      [5, rl(descriptor('category=account'), descriptor('foo=x,bar=bkthomps'))],
      [3, rl(descriptor('category=account'), descriptor('source_cluster=proxy,destination_cluster=fake'))],
      [
        3,
        rl(descriptor('source_cluster=proxy,destination_cluster=override'), descriptor('foo=x,bar=banned')),
      ],
    ],
  },
];

const OWN: readonly Scenario[] = [
  {
    name: 'hits: of the request, of a descriptor, none, and more than there are',
    files: () =>
      filesOf(`
domain: shop
descriptors:
  - { key: user, rate_limit: { unit: day, requests_per_unit: 10 } }
  - { key: plan, rate_limit: { unit: day, requests_per_unit: 5 } }
`),
    questions: [
      [2, { ...shop(descriptor('user=a')), hitsAddend: 3 }],
      [1, { ...shop(descriptor('user=a', { hitsAddend: 2n })), hitsAddend: 9 }],
      [2, shop(descriptor('user=a', { hitsAddend: 0n }))],
      [2, { ...shop(descriptor('user=a')), hitsAddend: 5 }],
      [1, shop(descriptor('user=a'))],
      [1, { ...shop(descriptor('user=b')), hitsAddend: 11 }],
      [1, shop(descriptor('user=b'))],
      // One is over, and both are counted.
      [7, shop(descriptor('user=c'), descriptor('plan=c'))],
      [3, shop(descriptor('user=d', { hitsAddend: 4n }), descriptor('plan=d', { hitsAddend: 1n }))],
    ],
  },
  {
    name: 'wildcards and share_threshold',
    files: () =>
      filesOf(`
domain: shop
descriptors:
  - { key: path, value: "/api/*", rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: path, rate_limit: { unit: day, requests_per_unit: 3 } }
  - { key: all, value: "v*", share_threshold: true, rate_limit: { unit: day, requests_per_unit: 2 } }
`),
    questions: [
      [3, shop(descriptor('path=/api/a'))],
      [2, shop(descriptor('path=/api/b'))],
      [4, shop(descriptor('path=/other'))],
      [1, shop(descriptor('all=v1'))],
      [2, shop(descriptor('all=v2'))],
    ],
  },
  {
    name: 'units, names, limits that requests bring along',
    files: () =>
      filesOf(`
domain: shop
descriptors:
  - { key: hour, rate_limit: { name: hourly, unit: hour, requests_per_unit: 2 } }
  - { key: week, rate_limit: { unit: WEEK, requests_per_unit: 2 } }
  - { key: month, rate_limit: { unit: month, requests_per_unit: 2 } }
  - { key: year, rate_limit: { unit: year, requests_per_unit: 2 } }
`),
    questions: [
      [3, shop(descriptor('hour=a'))],
      [3, shop(descriptor('week=a'))],
      [3, shop(descriptor('month=a'))],
      [3, shop(descriptor('year=a'))],
      [3, shop(descriptor('own=a', { limit: { requestsPerUnit: 1, unit: 4 } }))],
      [2, shop(descriptor('hour=b', { limit: { requestsPerUnit: 1, unit: 6 } }))],
    ],
  },
  {
    name: 'questions without an answer',
    files: () =>
      filesOf('domain: shop\ndescriptors: [{ key: user, rate_limit: { unit: day, requests_per_unit: 1 } }]'),
    questions: [
      [1, { domain: '', descriptors: [descriptor('user=a')] }],
      [1, { domain: 'shop', descriptors: [] }],
      [2, { domain: 'unknown', descriptors: [descriptor('user=a')] }],
      [
        1,
        {
          domain: 'unknown',
          descriptors: [descriptor('user=a', { limit: { requestsPerUnit: 1, unit: 4 } })],
        },
      ],
    ],
  },
];

const TRIES = 5;

test.each([...EXAMPLE, ...OWN])(
  '$name',
  async ({ files, questions }) => {
    for (let tried = 1; tried <= TRIES; tried += 1) {
      const { ask } = await startBoth(files());
      const startedIn = currentMinute();
      const answers: { question: string; theirs: unknown; ours: unknown }[] = [];
      for (const [times, call] of questions) {
        for (let count = 1; count <= times; count += 1) {
          const startedMs = performance.now();
          const [theirs, ours] = await ask(call);
          const tookMs = performance.now() - startedMs;
          answers.push({
            question: `${wordsOf(call)}, ${count}`,
            theirs: comparable(theirs, theirs, tookMs),
            ours: comparable(ours, theirs, tookMs),
          });
        }
      }
      // Windows end with the minute, for one server before it does for the other: then all is asked again.
      if (currentMinute() !== startedIn && tried < TRIES) continue;
      expect(answers.map(({ question, ours }) => ({ question, answer: ours }))).toEqual(
        answers.map(({ question, theirs }) => ({ question, answer: theirs })),
      );
      return;
    }
  },
  300_000,
);

test('a request with quotas is refused by ours when all of them are spent, by that version never', async () => {
  const { ask } = await startBoth(
    filesOf(`
domain: shop
descriptors:
  - { key: small, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 1 } }
  - { key: large, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 3 } }
`),
  );
  const codes: (readonly unknown[])[] = [];

  for (let count = 0; count < 4; count += 1) {
    const answers = await ask(shop(descriptor('small=a'), descriptor('large=a')));
    codes.push(answers.map((answer) => (answer as ComparedAnswer).overallCode));
  }

  expect(codes).toEqual([
    ['OK', 'OK'],
    ['OK', 'OK'],
    ['OK', 'OK'],
    ['OK', 'OVER_LIMIT'],
  ]);
}, 300_000);

function currentMinute(): number {
  return Math.floor(Date.now() / 60_000);
}

function wordsOf({ domain, descriptors }: RlsCall): string {
  const texts = descriptors.map(({ entries }) =>
    entries.map(({ key, value }) => `${key}=${value}`).join(','),
  );
  return `${domain}: ${texts.join(' and ')}`;
}

const SECOND_MS = 1000;

/** A reset that is as near to the other one as the calls were is the same: the reference server has whole seconds. */
function comparable(answer: unknown, theirs: unknown, tookMs: number): unknown {
  if (typeof answer === 'string') return answer;
  const { statuses = [], ...rest } = answer as ComparedAnswer;
  const others = (theirs as ComparedAnswer).statuses ?? [];
  return {
    ...rest,
    statuses: statuses.map((status, at) => {
      const other = others[at]?.durationUntilReset;
      const own = status.durationUntilReset;
      const isNear =
        own !== undefined && other !== undefined && Math.abs(msOf(own) - msOf(other)) <= tookMs + SECOND_MS;
      return { ...status, durationUntilReset: isNear ? other : own };
    }),
  };
}

interface ComparedAnswer {
  readonly overallCode?: string;
  readonly statuses?: readonly (Readonly<Record<string, unknown>> & {
    readonly durationUntilReset?: string;
  })[];
}

function msOf(duration: string): number {
  return Number.parseFloat(duration) * SECOND_MS;
}
