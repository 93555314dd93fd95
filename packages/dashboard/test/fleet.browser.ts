// Several gateways on one Redis, seen from the page of one of them.
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startRedis } from '../../../test/redis/servers.ts';
import { Browser, violations } from './browser.ts';
import { RunningGateway } from './running-gateway.ts';

let redis: Awaited<ReturnType<typeof startRedis>>;
let one: RunningGateway;
let other: RunningGateway;
let browser: Browser;
let page: Page;

function limits(quota: number): string {
  return `
redis: { url: "${redis.url}" }
rate_limit:
  key_strategy: { type: header, header_name: X-Tenant }
  policies: { login: { algorithm: fixedWindow, quota: ${quota}, window: 1h } }
  rules: [{ name: logins, policies: [login] }]
`;
}

beforeAll(async () => {
  redis = await startRedis();
  one = await RunningGateway.start({ config: limits(2) });
  other = await RunningGateway.start({ config: limits(2), backend: one.backendUrl });
  browser = await Browser.open();
});

afterAll(async () => {
  await browser.close();
  await one.stop();
  await other.stop();
  await redis.stop();
});

test('all instances are shown with their sums, and one that goes away is gone', async () => {
  page = await browser.visit(`${one.adminUrl}/#/fleet`);
  await page.getByRole('heading', { name: '2 instances' }).waitFor();
  await page.getByText('this one').waitFor();
  await one.ask('/', { headers: { 'x-tenant': 'acme' } });
  await other.ask('/', { headers: { 'x-tenant': 'acme' } });
  await other.ask('/', { headers: { 'x-tenant': 'acme' } });

  await page.getByText('3 decisions, 33 % denied').waitFor();
  expect(await violations(page)).toEqual([]);
  expect(await page.getByText(/different configurations/).count()).toBe(0);
  const third = await RunningGateway.start({ config: limits(3), backend: one.backendUrl });
  await page.getByText('The instances have 2 different configurations.').waitFor();
  expect(await violations(page)).toEqual([]);
  await third.stop();
  await page.getByRole('heading', { name: '2 instances' }).waitFor();
});

test('the live page shows Redis, its calls per decision, and what happens when it is gone', async () => {
  await page.goto(`${one.adminUrl}/#/live`);
  const store = page.getByRole('region', { name: 'Store' });
  await store.getByText('Up', { exact: true }).first().waitFor();
  await store.getByText('Redis calls per decision').waitFor();
  await store.getByText('Leased tokens held').waitFor();

  await redis.kill();
  await one.ask('/', { headers: { 'x-tenant': 'ben' } });

  await store.getByText('Down', { exact: true }).first().waitFor();
  expect(await violations(page)).toEqual([]);
  await page.goto(`${one.adminUrl}/#/fleet`);
  await page.getByText('That did not work').waitFor();
});
