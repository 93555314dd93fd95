// The pages about the gateway can be found, and agree about its answers: clients and dashboards look their codes up
// there.
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { GATEWAY_ERRORS } from '../src/proxy/gateway-errors.ts';

const docs = new URL('../../../docs/', import.meta.url);
const pages = readdirSync(docs).filter((name) => /^gateway-.*\.md$/.test(name));
const codes = new Map<string, number>(
  Object.entries(GATEWAY_ERRORS).map(([code, { status }]) => [code, status]),
);

function textOf(page: string): string {
  return readFileSync(new URL(page, docs), 'utf8');
}

test('the first page leads to every other one', () => {
  const linked = new Set([...textOf('gateway.md').matchAll(/\]\(([\w-]+\.md)/g)].map(([, page]) => page));

  expect(pages.filter((page) => !linked.has(page))).toEqual([]);
});

test('one page has the table of all answers', () => {
  const listing = pages.filter((page) =>
    [...codes.keys()].every((code) => textOf(page).includes(`\`${code}\``)),
  );

  expect(listing).toEqual(['gateway-http.md']);
});

test.each(['gateway.md', ...pages])('%s names no code with another status than it has', (page) => {
  const named = [...textOf(page).matchAll(/\b(\d{3}) `([A-Z]+(?:_[A-Z]+)+)`/g)];

  expect(
    named.filter(([, status, code = '']) => codes.has(code) && codes.get(code) !== Number(status)),
  ).toEqual([]);
});

test('the page about HTTP names only codes that there are', () => {
  const named = [...textOf('gateway-http.md').matchAll(/`([A-Z]+(?:_[A-Z]+)+)`/g)].map(
    ([, code = '']) => code,
  );

  expect(named).toContain('HEADER_TIMEOUT');
  expect(named.filter((code) => !codes.has(code))).toEqual([]);
});
