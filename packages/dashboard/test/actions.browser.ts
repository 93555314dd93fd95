// Everything that can be done to a key, in a browser.
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { Browser, violations } from './browser.ts';
import { RunningGateway } from './running-gateway.ts';

const OPERATOR = 'a-token-of-an-operator';
const READER = 'a-token-of-a-reader';
const LIMITS = `
rate_limit:
  key_strategy: { type: header, header_name: X-Api-Key }
  policies:
    login: { algorithm: fixedWindow, quota: 2, window: 1h }
    idle: { average: 5, period: 1m }
  rules:
    - { name: idle, match: { path: /idle }, policies: [idle] }
    - { name: logins, policies: [login] }
`;

let gateway: RunningGateway;
let guarded: RunningGateway;
let browser: Browser;
let page: Page;

beforeAll(async () => {
  gateway = await RunningGateway.start({ config: LIMITS });
  const admin = `, token: ${OPERATOR}, read_only_token: ${READER}`;
  guarded = await RunningGateway.start({ config: LIMITS, admin });
  browser = await Browser.open();
});

afterEach(async () => {
  await page.close();
});

afterAll(async () => {
  await browser.close();
  await gateway.stop();
  await guarded.stop();
});

async function asked(by: RunningGateway, key: string, times: number): Promise<number[]> {
  const statuses: number[] = [];
  for (let at = 0; at < times; at += 1) statuses.push(await by.ask('/', { headers: { 'x-api-key': key } }));
  return statuses;
}

test('a key is found plain and by its hash, with its level and its decisions', async () => {
  await asked(gateway, 'key-of-ann', 3);
  page = await browser.visit(`${gateway.adminUrl}/#/keys`);

  await page.getByRole('searchbox', { name: 'Key' }).fill('key-of-ann');
  await page.getByRole('button', { name: 'Look up' }).click();

  await page.getByRole('meter', { name: 'login: 0 of 2 left' }).waitFor();
  await page.getByText('1 policy with everything left').waitFor();
  const decisions = page.getByRole('region', { name: 'Recent decisions' });
  await decisions.getByRole('row', { name: /Denied GET/ }).waitFor();
  expect(await decisions.getByRole('row', { name: /Allowed GET/ }).count()).toBe(2);
  await decisions
    .getByRole('link', { name: /^sha256:/ })
    .first()
    .click();
  await page.waitForURL(/keys\/sha256/);
  await page.getByRole('meter', { name: 'login: 0 of 2 left' }).waitFor();
  expect(await page.content()).not.toContain('key-of-ann');
});

test('an override has an end and a note, and can be removed', async () => {
  await asked(gateway, 'key-of-ben', 2);
  page = await browser.visit(`${gateway.adminUrl}/#/keys/key-of-ben`);

  await page.getByRole('button', { name: 'Change limit of login' }).click();
  await page.getByLabel('quota').fill('9');
  await page.getByLabel('for how long').selectOption('1 hour');
  await page.getByLabel('note').fill('a good customer');
  await page.getByRole('button', { name: 'Save' }).click();

  await page.getByRole('meter', { name: 'login: 7 of 9 left' }).waitFor();
  await page.getByText(/“a good customer” · until .* · by dashboard/).waitFor();
  expect(await asked(gateway, 'key-of-ben', 1)).toEqual([200]);
  await page.getByRole('button', { name: 'Remove override of login' }).click();
  await page.getByRole('meter', { name: 'login: 0 of 2 left' }).waitFor();
});

test('a key is blocked and unblocked', async () => {
  await asked(gateway, 'key-of-cleo', 1);
  page = await browser.visit(`${gateway.adminUrl}/#/keys/key-of-cleo`);

  await page.getByRole('button', { name: 'Block of login' }).click();
  await page.getByLabel('note').fill('scrapes');
  await page.getByRole('button', { name: 'Deny everything to it' }).click();

  await page.getByText('blocked', { exact: true }).waitFor();
  expect(await violations(page)).toEqual([]);
  expect(await asked(gateway, 'key-of-cleo', 1)).toEqual([429]);
  await page.getByRole('button', { name: 'Unblock of login' }).click();
  await page.getByText('blocked', { exact: true }).waitFor({ state: 'detached' });
  expect(await asked(gateway, 'key-of-cleo', 1)).toEqual([200]);
  const changes = gateway.lines.filter(
    ({ audit, key }) => audit === true && String(key).startsWith('sha256:'),
  );
  expect(changes.map(({ action }) => action)).toEqual(expect.arrayContaining(['block', 'removeBlock']));
  expect(JSON.stringify(gateway.lines)).not.toContain('key-of-cleo');
});

test('with the read-only token everything is seen and nothing can be changed', async () => {
  await asked(guarded, 'key-of-dora', 3);
  page = await browser.visit(guarded.adminUrl);
  await page.getByLabel('Token').fill(READER);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('Read-only', { exact: true }).waitFor();

  await page.goto(`${guarded.adminUrl}/#/keys/key-of-dora`);
  await page.getByRole('meter', { name: 'login: 0 of 2 left' }).waitFor();
  await page.getByText('You are signed in with the read-only token, which changes nothing.').waitFor();
  expect(await page.getByRole('button', { name: /of login/ }).count()).toBe(0);
  expect(await violations(page)).toEqual([]);
  await page.goto(`${guarded.adminUrl}/#/configuration`);
  await page.getByRole('button', { name: 'Compare the file on disk' }).click();
  await page.getByText('nothing would change').waitFor();
  expect(await page.getByRole('button', { name: 'Reload' }).count()).toBe(0);

  const forced = await page.evaluate(async () => {
    const session = (await (await fetch('/v1/session')).json()) as { csrfToken: string };
    const response = await fetch('/v1/keys/login/key-of-dora', {
      method: 'DELETE',
      headers: { 'x-csrf-token': session.csrfToken },
    });
    return response.status;
  });
  expect(forced).toBe(403);
  expect(await asked(guarded, 'key-of-dora', 1)).toEqual([429]);
});
