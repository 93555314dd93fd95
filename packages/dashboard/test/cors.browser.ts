// A page of another origin is told that it asks too often, in a real browser.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Browser } from './browser.ts';
import { RunningGateway } from './running-gateway.ts';

let site: Server;
let gateway: RunningGateway;
let browser: Browser;

beforeAll(async () => {
  site = createServer((_, response) => {
    response.setHeader('content-type', 'text/html');
    response.end('<!doctype html><title>another origin</title>');
  });
  await new Promise<void>((resolve) => {
    site.listen(0, '127.0.0.1', resolve);
  });
  gateway = await RunningGateway.start({
    config: `
cors: { allowed_origins: ["${origin()}"] }
rate_limit:
  policies: { few: { algorithm: fixedWindow, quota: 1, window: 1h } }
  rules: [{ name: all, policies: [few] }]
`,
  });
  browser = await Browser.open();
});

afterAll(async () => {
  await browser.close();
  await gateway.stop();
  site.closeAllConnections();
  site.close();
});

function origin(): string {
  return `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
}

test('a page of another origin reads a 429 with its headers, not an error of CORS', async () => {
  const page = await browser.visit(origin());

  const answers = await page.evaluate(async (url) => {
    const ask = async (): Promise<object> => {
      // A header that makes the browser ask first.
      const response = await fetch(url, { headers: { 'x-anything': '1' } });
      const { headers, status } = response;
      const body = await response.text();
      return { status, retryAfter: headers.get('retry-after'), limit: headers.get('ratelimit'), body };
    };
    return [await ask(), await ask()];
  }, `${gateway.url}/`);

  expect(answers).toEqual([
    expect.objectContaining({ status: 200, body: 'hello\n' }),
    expect.objectContaining({
      status: 429,
      retryAfter: expect.stringMatching(/^\d+$/),
      limit: expect.stringContaining('r=0'),
      body: expect.stringContaining('"status":429'),
    }),
  ]);
  expect(browser.complaints.filter((text) => /CORS/i.test(text))).toEqual([]);
});
