import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { Browser, violations } from './browser.ts';
import { RunningGateway } from './running-gateway.ts';

const LIMITS = `
rate_limit:
  policies: { login: { algorithm: fixedWindow, quota: 2, window: 1h } }
  rules: [{ name: logins, policies: [login] }]
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

test('what a text would change is told, and nothing changes', async () => {
  page = await browser.visit(`${gateway.adminUrl}/#/configuration`);

  await page.getByLabel('Text of a new file').fill(gateway.written(LIMITS.replace('quota: 2', 'quota: 7')));
  await page.getByRole('button', { name: 'Check this text' }).click();

  await page.getByText('It would change one setting.').waitFor();
  await page.getByRole('row', { name: 'rate_limit.policies.login.quota 2 7' }).waitFor();
  expect(await violations(page)).toEqual([]);
  await page.getByRole('row', { name: /rate_limit\.policies\.login\.quota 2 gateway\.yaml/ }).waitFor();
  await page.getByText('There was no reload since the start.').waitFor();
});

test('why a text would be refused is told', async () => {
  page = await browser.visit(`${gateway.adminUrl}/#/configuration`);

  await page.getByLabel('Text of a new file').fill('rate_limit: { average: none }');
  await page.getByRole('button', { name: 'Check this text' }).click();

  await page.getByText('A reload would refuse it').waitFor();
  await page.getByText(/rate_limit\.average is "none"/).waitFor();
  expect(await violations(page)).toEqual([]);
});

test('reloads are listed with what they changed, or why they were refused', async () => {
  page = await browser.visit(`${gateway.adminUrl}/#/configuration`);
  gateway.rewrite(LIMITS.replace('quota: 2', 'quota: 5'));
  await page.getByRole('button', { name: 'Reload' }).click();
  await page.getByText('taken into use').waitFor();
  const inUse = page.getByRole('region', { name: 'In use' });
  await inUse.getByRole('row', { name: 'rate_limit.policies.login.quota 2 5' }).waitFor();

  gateway.rewrite(LIMITS.replace('quota: 2', 'quota: nonsense'));
  await page.getByRole('button', { name: 'Reload' }).click();

  await inUse.getByText('refused', { exact: true }).first().waitFor();
  await inUse
    .getByText(/quota is "nonsense"/)
    .first()
    .waitFor();
  expect(await violations(page)).toEqual([]);
});
