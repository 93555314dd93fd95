// docs/gateway.md: its configurations do what the text around them says.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { gateOf, statusOf, type Asked } from './facts.ts';

const page = readFileSync(new URL('../../../../docs/gateway.md', import.meta.url), 'utf8');
const LOGIN = { method: 'POST', path: '/login' };

/** The configuration in a section of the page. */
function shownIn(section: string): string {
  const [, text = ''] = page.split(`\n## ${section}\n`);
  const [, yaml] = /^```yaml\n(.*?)^```$/ms.exec(text) ?? [];
  if (yaml === undefined) throw new Error(`there is no configuration in "${section}"`);
  return yaml;
}

function admittedOf(ask: (asked?: Asked) => Parameters<typeof statusOf>[0], asked: Asked): number {
  let admitted = 0;
  while (admitted < 1000 && statusOf(ask(asked)) === 200) admitted += 1;
  return admitted;
}

test('20 requests at once, 10 per second in the long run', () => {
  const { ask, clock } = gateOf(shownIn('In front of your own service'));

  const first = ask();
  expect(first.headers).toContainEqual(['RateLimit-Policy', '"default";q=20;w=2']);
  expect(first.headers).toContainEqual(['RateLimit', '"default";r=19;t=1']);
  expect(admittedOf(ask, {})).toBe(19);
  clock.advance('1s');
  expect(admittedOf(ask, {})).toBe(10);
});

test('a refused login spends nothing of the other policy', () => {
  const { ask } = gateOf(shownIn('Rules'));

  expect(admittedOf(ask, LOGIN)).toBe(5);
  expect(admittedOf(ask, { path: '/elsewhere' })).toBe(15);
});

test('an export costs ten, the health check nothing, and a path is that path alone unless it is lenient', () => {
  const { ask } = gateOf(shownIn('Rules'));

  expect(admittedOf(ask, { path: '/healthz' })).toBe(1000);
  expect(admittedOf(ask, { path: '/export' })).toBe(2);
  expect(ask({ path: '/export/' }).detail.rule).toBeUndefined();
  expect(ask({ ...LOGIN, path: '/Login/;x' }).detail.rule).toBe('login');
  expect(ask({ path: '/users/7/report' }).detail.rule).toBe('reports');
});

test('tenants have plans, one of them a larger one; who does not say who he is gets a 400', () => {
  const { ask } = gateOf(shownIn('Who is counted'));

  expect(ask({ path: '/t/acme/orders' }).headers).toContainEqual([
    'RateLimit-Policy',
    '"plan";q=50000;w=86400, "address";q=50;w=1',
  ]);
  expect(ask({ path: '/t/other/orders' }).detail.decision?.verdicts[0]?.limit).toBe(1000);
  expect(statusOf(ask())).toBe(400);
  expect(statusOf(ask({ headers: [['X-Tenant-Id', 'acme']] }))).toBe(200);
});

test('a policy in shadow mode refuses nobody, the other goes on to hold, and the log tells them apart', () => {
  const { ask, records } = gateOf(shownIn('Try a limit before it refuses anyone'));

  const first = ask();
  expect(first.headers).toContainEqual(['RateLimit-Policy', '"default";q=20;w=2']);
  expect(admittedOf(ask, {})).toBe(19);
  expect(records.map(({ outcome, policy }) => `${outcome} ${policy ?? ''}`)).toEqual([
    ...Array.from({ length: 15 }, () => 'wouldDeny strict'),
    'denied default',
  ]);
});

test('a rule in shadow mode has no limit at all', () => {
  const { ask } = gateOf(
    '  average: 1\n  policies: { strict: { average: 1 } }\n  rules: [{ name: r, shadow: true, policies: [strict] }]\n',
  );

  expect(admittedOf(ask, {})).toBe(1000);
  expect(ask().headers).toEqual([]);
});
