// Every page in both themes, with and without anything to show, and with a gateway that cannot answer.
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Browser, violations } from './browser.ts';
import { RunningGateway } from './running-gateway.ts';

const LIMITS = `
rate_limit:
  key_strategy: { type: header, header_name: X-Tenant }
  policies: { login: { algorithm: fixedWindow, quota: 2, window: 1h } }
  rules: [{ name: logins, policies: [login] }]
`;

const PAGES = ['live', 'denials', 'keys', 'keys/acme', 'explain', 'configuration', 'fleet'];

/** What each page says where there is nothing, and where there is something. */
const EMPTY: Readonly<Record<string, string>> = {
  live: 'No requests at the moment.',
  denials: 'Nobody was denied',
  keys: 'Nobody was counted yet',
  'keys/acme': 'This instance remembers none of this key',
  explain: 'Nothing is sent or counted.',
  configuration: 'There was no reload since the start.',
  fleet: '1 instance',
};

let empty: RunningGateway;
let busy: RunningGateway;

beforeAll(async () => {
  empty = await RunningGateway.start({ config: LIMITS });
  busy = await RunningGateway.start({ config: LIMITS });
  for (let at = 0; at < 5; at += 1) await busy.ask('/', { headers: { 'x-tenant': 'acme' } });
});

afterAll(async () => {
  await empty.stop();
  await busy.stop();
});

async function shown(page: Page, gateway: RunningGateway, name: string): Promise<void> {
  await page.goto(`${gateway.adminUrl}/#/${name}`);
  await page.getByRole('heading', { level: 1 }).waitFor();
}

describe.each(['light', 'dark'] as const)('%s', (theme) => {
  let browser: Browser;
  let page: Page;

  beforeAll(async () => {
    browser = await Browser.open({ theme });
    page = await browser.visit(empty.adminUrl);
  });

  afterAll(async () => {
    await browser.close();
  });

  test.each(PAGES)('%s without anything to show says so, and everybody can use it', async (name) => {
    await shown(page, empty, name);
    await page
      .getByText(EMPTY[name] ?? '')
      .first()
      .waitFor();

    expect(await violations(page)).toEqual([]);
    expect(browser.complaints).toEqual([]);
  });

  test.each(PAGES)('%s with something to show can be used by everybody', async (name) => {
    await shown(page, busy, name);
    if (name === 'denials' || name === 'keys')
      await page.getByRole('link', { name: 'acme' }).first().waitFor();
    if (name === 'keys/acme') await page.getByRole('meter', { name: 'login: 0 of 2 left' }).waitFor();

    expect(await violations(page)).toEqual([]);
    expect(browser.complaints).toEqual([]);
  });
});

test('a page that is open when the gateway goes away says so, and shows what is new when it comes back', async () => {
  const browser = await Browser.open();
  const first = await RunningGateway.start({ config: LIMITS });
  const page = await browser.visit(`${first.adminUrl}/#/keys`);
  await page.getByText('Nobody was counted yet').waitFor();
  await first.stop();
  await page.getByText('The gateway does not answer.').first().waitFor();
  await page.goto(`${first.adminUrl}/#/fleet`);
  await page.getByText('That did not work').waitFor();
  expect(await violations(page)).toEqual([]);

  const second = await RunningGateway.start({ config: LIMITS, ports: first.ports });
  await page.getByText('1 instance').waitFor();
  await second.ask('/', { headers: { 'x-tenant': 'acme' } });
  await page.goto(`${first.adminUrl}/#/keys`);

  await page.getByRole('region', { name: 'Busiest' }).getByRole('link', { name: 'acme' }).waitFor();
  expect(await page.getByText('The gateway does not answer.').count()).toBe(0);
  await browser.close();
  await second.stop();
});

test('among 10,000 keys one is found as it is typed, and the page stays small', async () => {
  const browser = await Browser.open();
  const many = await RunningGateway.start({ config: LIMITS });
  for (let from = 0; from < 10_000; from += 100) {
    const batch = Array.from({ length: 100 }, async (_, at) =>
      many.ask('/', { headers: { 'x-tenant': `tenant-${from + at}` } }),
    );
    await Promise.all(batch);
  }
  for (let at = 0; at < 40; at += 1) await many.ask('/', { headers: { 'x-tenant': 'needle' } });
  const page = await browser.visit(`${many.adminUrl}/#/keys`);
  await page.getByRole('region', { name: 'Most denied' }).getByRole('link', { name: 'needle' }).waitFor();

  await page.getByRole('searchbox', { name: 'Key' }).fill('NEED');
  await expect.poll(() => page.getByRole('region', { name: 'Busiest' }).getByRole('row').count()).toBe(2);
  await page.getByRole('searchbox', { name: 'Key' }).fill('tenant-1234');
  await page.getByRole('button', { name: 'Look up' }).click();

  await page.getByRole('meter', { name: 'login: 1 of 2 left' }).waitFor();
  await page.goto(`${many.adminUrl}/#/keys`);
  await page.getByRole('region', { name: 'Busiest' }).getByRole('link').first().waitFor();
  expect(await page.getByRole('row').count()).toBeLessThanOrEqual(42);
  expect(Number(await page.evaluate('document.querySelectorAll("*").length'))).toBeLessThan(1000);
  await browser.close();
  await many.stop();
});
