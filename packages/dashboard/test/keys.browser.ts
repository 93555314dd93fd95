import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { Browser, violations } from './browser.ts';
import { RunningGateway } from './running-gateway.ts';

const TOKEN = 'a-token-of-an-operator';
const LIMITS = `
rate_limit:
  key_strategy: { type: header, header_name: X-Tenant }
  policies: { login: { algorithm: fixedWindow, quota: 2, window: 1h } }
  rules: [{ name: logins, policies: [login] }]
`;

let gateway: RunningGateway;
let guarded: RunningGateway;
let browser: Browser;
let page: Page;

beforeAll(async () => {
  gateway = await RunningGateway.start({ config: LIMITS });
  guarded = await RunningGateway.start({ config: LIMITS, admin: `, token: ${TOKEN}` });
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

async function asked(by: RunningGateway, tenant: string, times: number): Promise<number[]> {
  const statuses: number[] = [];
  for (let at = 0; at < times; at += 1) statuses.push(await by.ask('/', { headers: { 'x-tenant': tenant } }));
  return statuses;
}

test('who is denied is found with nothing but the page, and their limit is raised', async () => {
  page = await browser.visit(`${gateway.adminUrl}/#/keys`);
  await page.getByText('Nobody was denied').waitFor();
  expect(await asked(gateway, 'acme', 3)).toEqual([200, 200, 429]);

  await page.reload();
  await page.getByRole('region', { name: 'Most denied' }).getByRole('link', { name: 'acme' }).click();
  await page.getByRole('meter', { name: 'login: 0 of 2 left' }).waitFor();
  await page.getByText(/full again at/).waitFor();
  expect(await violations(page)).toEqual([]);
  await page.getByRole('button', { name: 'Change limit of login' }).click();
  await page.getByLabel('quota').fill('5');
  await page.getByRole('button', { name: 'Save' }).click();

  await page.getByRole('meter', { name: 'login: 3 of 5 left' }).waitFor();
  expect(await asked(gateway, 'acme', 1)).toEqual([200]);
});

test('a key is forgotten, and numbers that do not fit are told', async () => {
  await asked(gateway, 'ben', 2);
  page = await browser.visit(`${gateway.adminUrl}/#/keys/ben`);
  await page.getByRole('meter', { name: 'login: 0 of 2 left' }).waitFor();

  await page.getByRole('button', { name: 'Change limit of login' }).click();
  await page.getByLabel('quota').fill('nonsense');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText(/quota in the body is "nonsense"; expected a whole number/).waitFor();
  await page.getByRole('button', { name: 'Forget use of login' }).click();

  await page.getByRole('meter', { name: 'login: 2 of 2 left' }).waitFor();
  expect(gateway.lines.filter(({ audit }) => audit === true).map(({ action }) => action)).toContain('forget');
});

test('the configuration is shown with the origin of every value, and after a reload its problems', async () => {
  page = await browser.visit(`${gateway.adminUrl}/#/configuration`);
  await page.getByRole('row', { name: /rate_limit\.policies\.login\.quota 2 gateway\.yaml:\d+/ }).waitFor();
  expect(await violations(page)).toEqual([]);

  gateway.rewrite(LIMITS.replace('quota: 2', 'quota: nonsense'));
  await page.getByRole('button', { name: 'Reload' }).click();

  const problem = page.getByText(/quota is "nonsense"/);
  await problem.first().waitFor();
  expect(await problem.count()).toBeGreaterThan(0);
  gateway.rewrite(LIMITS);
});

test('where there is a token, nothing is shown without it, and everything with it', async () => {
  page = await browser.visit(guarded.adminUrl);
  await page.getByLabel('Token').fill('wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText(/Send the token of the gateway/).waitFor();
  expect(await violations(page)).toEqual([]);

  await page.getByLabel('Token').fill(TOKEN);
  await page.getByRole('button', { name: 'Sign in' }).click();

  await page.getByRole('heading', { name: 'Live' }).waitFor();
  await asked(guarded, 'acme', 2);
  await page.goto(`${guarded.adminUrl}/#/keys/acme`);
  await page.getByRole('button', { name: 'Forget use of login' }).click();
  await page.getByRole('meter', { name: 'login: 2 of 2 left' }).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Token').waitFor();
  expect(guarded.lines.find(({ action }) => action === 'forget')).toMatchObject({
    audit: true,
    via: 'session',
  });
});

test('on a phone nothing is wider than the page', async () => {
  const phone = await Browser.open({ width: 390, height: 844 });
  page = await phone.visit(gateway.adminUrl);
  await asked(gateway, 'a-tenant-with-a-long-name', 3);

  for (const name of [
    'live',
    'denials',
    'keys',
    'keys/a-tenant-with-a-long-name',
    'explain',
    'configuration',
    'fleet',
  ]) {
    await page.goto(`${gateway.adminUrl}/#/${name}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    if (name === 'denials')
      await page.getByRole('cell', { name: 'a-tenant-with-a-long-name' }).first().waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
    expect(await violations(page)).toEqual([]);
  }
  await phone.close();
});
