import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { Browser, violations } from './browser.ts';
import { RunningGateway } from './running-gateway.ts';

const LIMITS = `
rate_limit:
  policies: { login: { algorithm: fixedWindow, quota: 2, window: 1h } }
  rules:
    - { name: health, match: { path: /health }, policies: [] }
    - { name: logins, match: { path: /login }, key: { type: header, header_name: X-Tenant }, policies: [login] }
`;
const ACME = { headers: { 'x-tenant': 'acme' } };

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

test('without denials the list says what it is waiting for', async () => {
  page = await browser.visit(`${gateway.adminUrl}/#/denials`);

  await page.getByText('Nobody was denied').waitFor();

  expect(await violations(page)).toEqual([]);
});

test('a denial appears by itself, with its reason, and leads to its story', async () => {
  page = await browser.visit(`${gateway.adminUrl}/#/denials`);
  await page.getByText('Nobody was denied').waitFor();

  for (let at = 0; at < 3; at += 1) await gateway.ask('/login', ACME);

  const row = page.getByRole('row', { name: /acme/ });
  await row.getByText(/login is used up, the next in/).waitFor();
  await row.getByRole('link', { name: /Explain/ }).click();
  await page.getByText(/GET \/login was denied: acme has 0 of 2 left under the policy login/).waitFor();
  await page.getByText('the path is "/login", not "/health"').waitFor();
  await page.getByRole('meter', { name: 'login: 0 of 2 left' }).waitFor();
  await page.getByText(/^Wait /).waitFor();
  expect(await violations(page)).toEqual([]);
  expect(browser.complaints).toEqual([]);
});

test('a list can be filtered and held', async () => {
  page = await browser.visit(`${gateway.adminUrl}/#/denials`);
  await page.getByRole('row', { name: /acme/ }).first().waitFor();

  await page.getByRole('searchbox', { name: 'Filter' }).fill('nobody');
  await page.getByText('None of them mentions that').waitFor();
  await page.getByRole('searchbox', { name: 'Filter' }).fill('ACME');
  await page.getByRole('button', { name: 'Pause' }).click();
  await gateway.ask('/login', ACME);

  await page.getByRole('button', { name: 'Resume' }).waitFor();
  expect(await page.getByRole('row', { name: /acme/ }).count()).toBe(1);
  await page.getByRole('button', { name: 'Resume' }).click();
  await expect.poll(() => page.getByRole('row', { name: /acme/ }).count()).toBe(2);
});

test('a made-up request is explained', async () => {
  page = await browser.visit(`${gateway.adminUrl}/#/explain`);

  await page.getByLabel('Path').fill('/login');
  await page.getByLabel('Headers').fill('X-Tenant: someone');
  await page.getByRole('button', { name: 'Explain', exact: true }).click();

  await page
    .getByText('GET /login would be admitted: someone has 1 of 2 left under the policy login.')
    .waitFor();
  expect(await violations(page)).toEqual([]);
});

test('an id that nobody remembers is told', async () => {
  page = await browser.visit(`${gateway.adminUrl}/#/explain`);

  await page.getByLabel('Id').fill('nobody');
  await page.getByRole('button', { name: 'Look it up' }).click();

  const told = page.getByText(/The id is "nobody"; expected one of a recent request/);
  await told.waitFor();
  expect(await told.count()).toBe(1);
});
