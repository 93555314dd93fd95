// The blocks of these pages that are marked `ts redis` run on a Redis server and print what they say.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { codeBlocks } from '../../../examples/documents/code-blocks.ts';
import { compileBlocks, type CompiledBlocks } from '../../../examples/documents/compile-blocks.ts';
import { startRedis } from '../servers.ts';

const REPOSITORY = new URL('../../../', import.meta.url);
const BUILD = new URL('build/redis-page/', REPOSITORY);
const DEADLINE_MS = 60_000;
const PAGES = ['docs/redis.md', 'docs/fleet.md'];

const blocks = PAGES.flatMap((page) =>
  codeBlocks(page, readFileSync(new URL(page, REPOSITORY), 'utf8')),
).filter(({ info }) => info === 'ts redis');
let compiled: CompiledBlocks;

beforeAll(async () => {
  compiled = await compileBlocks(blocks, BUILD, REPOSITORY);
}, DEADLINE_MS);

test('the pages show programs that run', () => {
  expect(compiled.complaints).toBe('');
  for (const page of PAGES) expect(blocks.map(({ document }) => document)).toContain(page);
});

test.each(blocks.map((block) => [`${block.document}:${block.line}`, block] as const))(
  '%s prints what it says, and ends by itself',
  async (_, block) => {
    const redis = await startRedis();
    onTestFinished(() => redis.stop());

    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      [
        '--import',
        `data:text/javascript,${encodeURIComponent(portInsteadOf6379(redis.port))}`,
        compiled.programOf(block),
      ],
      { timeout: DEADLINE_MS },
    );

    expect(stderr).toBe('');
    expect(stdout).toBe(block.output);
  },
  DEADLINE_MS,
);

/** A page names the usual port of Redis; loaded before its program, this connects to the port of the test instead. */
function portInsteadOf6379(port: number): string {
  return `
    import { Socket } from 'node:net';
    const { connect } = Socket.prototype;
    Socket.prototype.connect = function (...given) {
      const options = Array.isArray(given[0]) ? given[0][0] : given[0];
      if (Number(options.port) === 6379) Object.assign(options, { host: '127.0.0.1', port: ${port} });
      return connect.apply(this, given);
    };
  `;
}
