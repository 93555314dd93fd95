// The programs on the migration pages: before and after, with the real packages, they admit the same.
import { readdirSync, readFileSync } from 'node:fs';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { codeBlocks, type CodeBlock } from '../../examples/documents/code-blocks.ts';
import { compileBlocks, type CompiledBlocks } from '../../examples/documents/compile-blocks.ts';
import { firstStatuses } from '../../examples/documents/server-program.ts';
import { startRedis } from '../redis/servers.ts';
import { startUpstashHttp } from './upstash-http.ts';

const REPOSITORY = new URL('../../', import.meta.url);
const PAGES = new URL('docs/migrate/', REPOSITORY);
const BUILD = new URL('build/migrate/', REPOSITORY);
const DEADLINE_MS = 60_000;

/** Every page limits to this many requests. */
const LIMIT = 5;
const EXPECTED = [...Array<number>(LIMIT).fill(200), 429, 429];

const pages = readdirSync(PAGES).filter((name) => name.startsWith('from-'));
const blocks = pages.flatMap((name) => codeBlocks(name, readFileSync(new URL(name, PAGES), 'utf8')));
const programs = blocks.filter(({ info }) => info === 'ts before' || info === 'ts after');
let compiled: CompiledBlocks;

beforeAll(async () => {
  compiled = await compileBlocks(programs, BUILD, REPOSITORY);
}, DEADLINE_MS);

test('every page has one program before and one after', () => {
  const found = pages.map((name) => [
    name,
    ...blocks
      .filter(({ document }) => document === name)
      .flatMap(({ info }) => /before|after/.exec(info) ?? []),
  ]);

  expect(found).toEqual(pages.map((name) => [name, 'before', 'after']));
});

test('the programs compile', () => {
  expect(compiled.complaints).toBe('');
});

test.each(programs.map((block) => [`${block.document}, ${block.info}`, block] as const))(
  '%s: 5 requests pass, then they are refused',
  async (_, block) => {
    const statuses = await firstStatuses(
      compiled.programOf(block),
      EXPECTED.length,
      await environmentOf(block),
    );

    expect(statuses).toEqual(EXPECTED);
  },
);

/** A Redis of its own for the programs that need one. */
async function environmentOf({ text }: CodeBlock): Promise<Readonly<Record<string, string>>> {
  if (!/redis/i.test(text)) return {};
  const redis = await startRedis();
  onTestFinished(() => redis.stop());
  return {
    REDIS_URL: redis.url,
    UPSTASH_REDIS_REST_URL: await startUpstashHttp(redis),
    UPSTASH_REDIS_REST_TOKEN: 'secret',
  };
}
