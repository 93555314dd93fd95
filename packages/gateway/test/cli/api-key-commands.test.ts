import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { runCommandLine } from '../../src/cli/program.ts';
import type { Host } from '../../src/cli/host.ts';
import { readKeys } from '../../src/identity/api-keys/key-file.ts';
import { spillgate } from './terminal.ts';
import { hashOfKey, KeyRing } from '../../src/identity/api-keys/key-ring.ts';

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly error: string;
}

interface Tried {
  readonly file: string;
  readonly folder: string;
  readonly run: (...args: readonly string[]) => Promise<Ran>;
}

function setUp(input = ''): Tried {
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-api-keys-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'keys.yaml');
  const run = async (...args: readonly string[]): Promise<Ran> => {
    let out = '';
    let error = '';
    const host: Host = {
      program: 'spillgate',
      env: {},
      write: (text) => (out += text),
      writeError: (text) => (error += text),
      readFile: (path) => (path === '-' ? input : readFileSync(path, 'utf8')),
      writeFile: () => undefined,
      outputIsTerminal: false,
      errorIsTerminal: false,
      onSignal: () => undefined,
      onCrash: () => undefined,
      exit: () => undefined,
    };
    const code = await runCommandLine(['api-keys', ...args, '--file', file], host, '1.2.3');
    return { code, out, error };
  };
  return { file, folder, run };
}

const NOW_MS = Date.parse('2026-01-01T00:00:00Z');
const keyIn = ({ out }: Ran): string => /sg_[\w-]{43}/.exec(out)?.[0] ?? '';

test('what add prints is accepted, and what revoke names no longer', async () => {
  const { file, run } = setUp();

  const key = keyIn(await run('add', 'acme', '--plan', 'pro'));
  expect(new KeyRing(readKeys(readFileSync(file, 'utf8'))).find(key, NOW_MS)).toEqual({
    name: 'acme',
    plan: 'pro',
  });
  expect((await run('revoke', 'acme')).code).toBe(0);

  expect(new KeyRing(readKeys(readFileSync(file, 'utf8'))).find(key, NOW_MS)).toBe('disabled');
});

test('comments, the mode of the file and other entries survive, and no other file is left', async () => {
  const { file, folder, run } = setUp();
  writeFileSync(
    file,
    `# ours\nkeys:\n  # the first one\n  - { name: first, hash: "${hashOfKey('x')}" } # kept\n`,
  );
  chmodSync(file, 0o640);

  await run('add', 'acme');
  await run('rotate', 'acme');

  const text = readFileSync(file, 'utf8');
  for (const comment of ['# ours', '# the first one', '# kept']) expect(text).toContain(comment);
  expect(readKeys(text).map(({ name }) => name)).toEqual(['first', 'acme']);
  expect(statSync(file).mode & 0o777).toBe(0o640);
  expect(readdirSync(folder)).toEqual(['keys.yaml']);
});

test('a key of one’s own comes from standard input, and is not printed', async () => {
  const own = 'a-long-key-of-somebody-else';
  const { file, run } = setUp(`${own}\n`);

  const { out } = await run('add', 'acme', '--stdin');

  expect(out).not.toContain(own);
  expect(readKeys(readFileSync(file, 'utf8'))[0]?.hash).toBe(hashOfKey(own));
});

test.each<[string, readonly string[], string]>([
  ['a name that exists', ['add', 'first'], 'There is a key named first in'],
  ['a name that cannot be one', ['add', 'a b'], 'The name is "a b"; it must have 1 to 64 letters'],
  [
    'a plan that cannot be one',
    ['add', 'b', '--plan', 'a b'],
    '--plan is "a b"; it must have 1 to 64 letters',
  ],
  [
    'an end that is over',
    ['add', 'b', '--expires', '2020-01-01T00:00:00Z'],
    '--expires is 2020-01-01T00:00:00Z, which is over; it is 20',
  ],
  [
    'an old key until a time that is over',
    ['rotate', 'first', '--keep-old', '2020-01-01T00:00:00Z'],
    '--keep-old is 2020-01-01T00:00:00Z, which is over',
  ],
  ['a name that nobody has', ['revoke', 'nobody'], 'There is no key named nobody in'],
  ['rotating a name that nobody has', ['rotate', 'nobody'], 'There is no key named nobody in'],
  ['an end that is none', ['add', 'b', '--expires', 'soon'], '--expires is soon; expected a time from now'],
  ['a key that is too short', ['add', 'b', '--stdin'], 'The key on standard input has 5 characters'],
])('%s is refused, and the file stays as it is', async (_, args, message) => {
  const { file, run } = setUp('short');
  await run('add', 'first');
  const before = readFileSync(file, 'utf8');

  const { code, error } = await run(...args);

  expect(code).toBe(2);
  expect(error).toContain(message);
  expect(readFileSync(file, 'utf8')).toBe(before);
});

test('a key that was revoked is accepted again when it is rotated, and the old one is not', async () => {
  const { file, run } = setUp();
  const old = keyIn(await run('add', 'bob'));
  await run('revoke', 'bob');

  const kept = await run('rotate', 'bob', '--keep-old', '1h');
  const rotated = await run('rotate', 'bob');

  expect(kept).toMatchObject({ code: 2, error: expect.stringContaining('Leave out --keep-old.') as string });
  expect(rotated.out).toContain(
    'Gave bob a new key. It was revoked, and is accepted again. The old key gets a 401',
  );
  const ring = new KeyRing(readKeys(readFileSync(file, 'utf8')));
  expect(ring.find(keyIn(rotated), NOW_MS)).toEqual({ name: 'bob', plan: undefined });
  expect(ring.find(old, NOW_MS)).toBe('unknown');
});

test('a key that has expired is not rotated without a new end', async () => {
  const { file, run } = setUp();
  writeFileSync(
    file,
    `keys:\n  - { name: bob, hash: "${hashOfKey('x')}", expires: "2020-01-01T00:00:00Z" }\n`,
  );

  const refused = await run('rotate', 'bob');
  const rotated = await run('rotate', 'bob', '--expires', '90d');

  expect(refused.code).toBe(2);
  expect(refused.error).toContain(
    'bob expired at 2020-01-01T00:00:00Z, and a new key would be refused, too.',
  );
  const ring = new KeyRing(readKeys(readFileSync(file, 'utf8')));
  expect(ring.find(keyIn(rotated), Date.now())).toEqual({ name: 'bob', plan: undefined });
});

test('a plan that nobody could check is added with a warning', async () => {
  const { folder, run } = setUp();
  const config = join(folder, 'spillgate.yaml');
  writeFileSync(
    config,
    'identity: { api_keys: { file: keys.yaml }, plans: { pro: { policies: [pro] } } }\nrate_limit: { policies: { pro: { average: 5 } } }\n',
  );

  const unchecked = await run('add', 'ann', '--plan', 'gold');
  const wrong = await run('add', 'zoe', '--plan', 'gold', '--config', config);
  const right = await run('add', 'zoe', '--plan', 'pro', '--config', config);

  expect(unchecked).toMatchObject({
    code: 0,
    error: 'warning: nobody checked that there is a plan named gold: name the configuration with --config.\n',
  });
  expect(wrong).toMatchObject({
    code: 2,
    error: 'There is no plan named gold in identity.plans. Plans: pro.\n',
  });
  expect(right).toMatchObject({ code: 0, error: '' });
});

test('messages name the file, and the place in it', async () => {
  const { file, folder, run } = setUp();

  const missing = await run('list');
  writeFileSync(file, 'keys:\n  - { name: a\n  - b: [');
  const broken = await run('add', 'b');
  const unknown = await run('list', '--config', join(folder, 'none.yaml'));

  expect(missing.error).toBe(`The file of keys ${file} does not exist.\n`);
  expect(broken.error).toMatch(/^The file of keys \S+keys\.yaml is not YAML \(line \d, column \d+\)\.\n$/);
  expect(unknown.error).toBe(`The configuration ${join(folder, 'none.yaml')} does not exist.\n`);
});

test('check reports every mistake of a file of keys at once', async () => {
  const files = {
    'spillgate.yaml': 'backend: { url: "http://127.0.0.1:1" }\nidentity: { api_keys: { file: keys.yaml } }\n',
    'keys.yaml': `keys:
  - { name: a, hash: plain }
  - { name: b, hash: "${hashOfKey('b')}", plan: gold }
  - { name: a, hash: "${hashOfKey('a')}", expires: soon }
`,
  };

  const { exitCode, stdout } = await spillgate(['check', 'spillgate.yaml'], { files });

  expect(exitCode).toBe(1);
  for (const mistake of [
    'keys.yaml keys.0.hash must be "sha256:"',
    'keys.yaml keys.2.expires must be a date and time',
    'keys.yaml has two keys named a',
    'keys.yaml: the key b has the plan gold, which is not in identity.plans',
  ]) {
    expect(stdout).toContain(mistake);
  }
});

test('a file that is being changed is left alone, and the message says what to do', async () => {
  const { file, run } = setUp();
  await run('add', 'first');
  writeFileSync(`${file}.lock`, '');

  const { code, error } = await run('add', 'second');

  expect(code).toBe(2);
  expect(error).toContain(`if that is not so, remove ${file}.lock`);
});

test.each<[string, string]>([
  ['keys: [', 'is not YAML'],
  ['keys: 7', 'keys Invalid input'],
  ['nonsense: true', 'Unrecognized key'],
  ['keys:\n  - { name: a, hash: plain-text-key }', 'keys.0.hash must be "sha256:"'],
  [
    `keys:\n  - { name: a, hash: "${hashOfKey('x')}" }\n  - { name: a, hash: "${hashOfKey('y')}" }`,
    'two keys named a',
  ],
  [
    `keys:\n  - { name: a, hash: "${hashOfKey('x')}" }\n  - { name: b, hash: "${hashOfKey('x')}" }`,
    'the same hash for a and b',
  ],
  [
    `keys:\n  - { name: a, hash: "${hashOfKey('x')}", expires: tomorrow }`,
    'must be a date and time with a time zone',
  ],
  ['keys: &a [*a]', 'has aliases'],
])('a broken file says what is wrong with it: %s', (text, message) => {
  expect(() => readKeys(text)).toThrow(message);
});
