// The pictures of docs/dashboard.md, of the demo that everybody can start: `npm run screenshots`.
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Browser, type Viewing } from './browser.ts';
import { RunningDemo } from './running-demo.ts';

const FOLDER = fileURLToPath(new URL('../../../docs/images/', import.meta.url));

let demo: RunningDemo;

beforeAll(async () => {
  mkdirSync(FOLDER, { recursive: true });
  demo = await RunningDemo.start();
});

afterAll(async () => {
  await demo.stop();
});

/** Answers with what the page complained about. */
async function picture(
  name: string,
  viewing: Viewing,
  show: (page: Page) => Promise<void>,
): Promise<readonly string[]> {
  const browser = await Browser.open(viewing);
  const page = await browser.visit(demo.adminUrl);
  await show(page);
  await page.screenshot({ path: `${FOLDER}dashboard-${name}.png`, animations: 'disabled' });
  await browser.close();
  return browser.complaints;
}

/** Graphs have something to show after a while, as long as somebody watches. */
async function live(page: Page): Promise<void> {
  await page.getByText(/Up 1 min [1-5]|Up [2-9] min/).waitFor({ state: 'attached', timeout: 120_000 });
  await page
    .getByRole('region', { name: 'Who is denied' })
    .getByRole('link', { name: 'scraper-7' })
    .waitFor();
}

test('live, light and dark and on a phone', { timeout: 300_000 }, async () => {
  expect(await picture('live', { height: 800 }, live)).toEqual([]);
  expect(await picture('dark', { height: 800, theme: 'dark' }, live)).toEqual([]);
  expect(await picture('phone', { width: 390, height: 844 }, live)).toEqual([]);
});

test('denials and the story of one', async () => {
  const told = await picture('denials', { height: 640 }, async (page) => {
    await page.goto(`${demo.adminUrl}/#/denials`);
    await page
      .getByRole('link', { name: /^Explain/ })
      .first()
      .waitFor();
  });
  expect(told).toEqual([]);
  const others = await picture('explain', { height: 800 }, async (page) => {
    await page.goto(`${demo.adminUrl}/#/denials`);
    await page
      .getByRole('row', { name: /scraper-7/ })
      .first()
      .getByRole('link', { name: /^Explain/ })
      .click();
    await page.getByRole('region', { name: 'Decided by' }).waitFor();
  });
  expect(others).toEqual([]);
});

test('a key and what to do about it', async () => {
  const told = await picture('key', { height: 800 }, async (page) => {
    await page.goto(`${demo.adminUrl}/#/keys/scraper-7`);
    await page.getByRole('button', { name: 'Change limit of search' }).click();
    await page.getByLabel('average').fill('5');
    await page.getByLabel('note').fill('a partner, agreed with sales');
    await page.getByRole('region', { name: 'Recent decisions' }).getByRole('row').nth(3).waitFor();
  });
  expect(told).toEqual([]);
});

test('the configuration, and what a new file would change', async () => {
  const told = await picture('configuration', { height: 800 }, async (page) => {
    await page.goto(`${demo.adminUrl}/#/configuration`);
    await page.getByLabel('Text of a new file').fill('rate_limit:\n  average: 20\n  period: 10s\n');
    await page.getByRole('button', { name: 'Check this text' }).click();
    await page.getByText(/It would change/).waitFor();
  });
  expect(told).toEqual([]);
});
