import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { Browser, violations } from './browser.ts';
import { RunningGateway } from './running-gateway.ts';

const LIMITS = `
rate_limit:
  policies:
    login: { algorithm: fixedWindow, quota: 2, window: 1h }
    tried: { algorithm: fixedWindow, quota: 1, window: 1h }
  rules:
    - { name: logins, match: { path: /login }, policies: [login] }
    - { name: others, policies: [{ policy: tried, shadow: true }] }
`;

let gateway: RunningGateway;
let browser: Browser;
let page: Page;

beforeAll(async () => {
  gateway = await RunningGateway.start({ config: LIMITS });
  browser = await Browser.open();
});

afterEach(async () => {
  await page.close();
});

afterAll(async () => {
  await browser.close();
  await gateway.stop();
});

test('what the gateway does shows within seconds, by rule and by policy', async () => {
  page = await browser.visit(gateway.adminUrl);
  await page.getByText('No requests at the moment.').waitFor();

  const statuses: number[] = [];
  for (let at = 0; at < 4; at += 1) statuses.push(await gateway.ask('/login'));
  for (let at = 0; at < 3; at += 1) statuses.push(await gateway.ask('/other'));

  expect(statuses).toEqual([200, 200, 429, 429, 200, 200, 200]);
  const tile = (name: string) => page.getByRole('region', { name, exact: true });
  await tile('Denied').getByText('2 since the start').waitFor();
  await tile('Allowed').getByText('5 since the start').waitFor();
  await tile('Shadow-denied').getByText('2 since the start').waitFor();
  await tile('By rule').getByRole('cell', { name: 'logins' }).waitFor();
  await tile('By policy').getByRole('cell', { name: 'tried' }).waitFor();
  await tile('Backends').getByText('Healthy').waitFor();
  expect(await tile('Requests per second').getByRole('img').getAttribute('aria-label')).toMatch(
    /over the last/,
  );
  expect(browser.complaints).toEqual([]);
});

test.each(['light', 'dark'])('everybody can use it, %s', async (theme) => {
  page = await browser.visit(gateway.adminUrl);
  await page.getByRole('heading', { name: 'Live' }).waitFor();
  if (theme === 'dark') await page.getByRole('button', { name: 'Dark' }).click();

  expect(await violations(page)).toEqual([]);
});

test('a gateway that goes away is missed, and found again when it comes back', async () => {
  const first = await RunningGateway.start({ config: LIMITS });
  page = await browser.visit(first.adminUrl);
  await page.getByRole('heading', { name: 'Live' }).waitFor();
  await first.stop();
  await page.getByText('The gateway does not answer.').waitFor();

  const second = await RunningGateway.start({ config: LIMITS, ports: first.ports });
  await page.getByText('The gateway does not answer.').waitFor({ state: 'detached' });
  await second.ask('/other');

  await page.getByRole('region', { name: 'Allowed' }).getByText('1 since the start').waitFor();
  expect(second.ports).toEqual(first.ports);
  await second.stop();
});

test('the keyboard alone reaches everything', async () => {
  page = await browser.visit(gateway.adminUrl);
  await page.getByRole('heading', { name: 'Live' }).waitFor();

  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');

  expect(await page.evaluate('document.activeElement.id')).toBe('main');
});
