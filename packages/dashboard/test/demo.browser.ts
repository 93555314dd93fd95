// A newcomer with nothing but the page: who is being denied, why, and their limit is raised.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Browser } from './browser.ts';
import { RunningDemo } from './running-demo.ts';

let demo: RunningDemo;
let browser: Browser;

beforeAll(async () => {
  demo = await RunningDemo.start();
  browser = await Browser.open();
});

afterAll(async () => {
  await browser.close();
  await demo.stop();
});

test('the first page names who is denied, and three clicks later they are not', async () => {
  const page = await browser.visit(demo.adminUrl);

  const who = page.getByRole('region', { name: 'Who is denied' });
  await who.getByRole('link', { name: 'scraper-7' }).click();
  await page.getByText('used up').first().waitFor();
  await page
    .getByRole('region', { name: 'Recent decisions' })
    .getByText(/search is used up/)
    .first()
    .waitFor();
  await page.getByRole('button', { name: 'Change limit of search' }).click();
  await page.getByLabel('average').fill('50');
  await page.getByLabel('burst').fill('50');
  await page.getByRole('button', { name: 'Save' }).click();

  await page.getByText('override: average 50, burst 50').waitFor();
  await expect
    .poll(async () => {
      const [first] = await page
        .getByRole('region', { name: 'Recent decisions' })
        .getByRole('row')
        .all()
        .then((rows) => rows.slice(1, 2));
      return first?.textContent();
    })
    .toMatch(/Allowed/);
  expect(browser.complaints).toEqual([]);
});

test('one of the denials is explained in words', async () => {
  const page = await browser.visit(`${demo.adminUrl}/#/denials`);

  await page
    .getByRole('row', { name: /guesser/ })
    .first()
    .getByRole('link', { name: /^Explain/ })
    .click();

  const told = page.getByText(
    /POST \/demo\/login was denied: guesser has 0 of 10 left under the policy login;/,
  );
  await told.waitFor();
  expect(await told.count()).toBe(1);
});
