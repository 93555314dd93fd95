// docs/gateway-request.md names every answer of the gateway itself: clients and dashboards look their codes up there.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { OWN_ANSWERS } from '../src/proxy/answers.ts';

const page = readFileSync(new URL('../../../docs/gateway-request.md', import.meta.url), 'utf8');

test('the page lists every code of an answer with its status, and no other', () => {
  const codes = Object.entries(OWN_ANSWERS).map(([code, { status }]) => `${status} ${code}`);

  expect(listedCodes().toSorted()).toEqual(codes.toSorted());
});

function listedCodes(): readonly string[] {
  return [...page.matchAll(/^\| (\d{3}) \| ([^|]+) \|/gm)].flatMap(([, status, names = '']) =>
    [...names.matchAll(/`(\w+)`/g)].map(([, code]) => `${status} ${code}`),
  );
}
