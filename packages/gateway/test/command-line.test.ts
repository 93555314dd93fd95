// The program as a user runs it: a process of its own.
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const PROGRAM = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const BACKEND = 'backend: { url: "http://localhost:3000" }\n';
let folder = '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'spillgate-cli-'));
});

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

describe('spillgate check', () => {
  test('accepts a good file', async () => {
    await put('good.yaml', 'backend:\n  url: "http://localhost:3000"\n');

    expect(await spillgate(['check', 'good.yaml'])).toEqual({
      exitCode: 0,
      stdout: 'good.yaml is valid.\n',
      stderr: '',
    });
  });

  test('names every problem of a bad file and exits with 1', async () => {
    await put('bad.yaml', 'server:\n  adress: ":8080"\n  workers: 0\n');

    expect(await spillgate(['check', 'bad.yaml'])).toEqual({
      exitCode: 1,
      stdout: [
        'bad.yaml:2:3: error: server.adress is not a setting. Did you mean server.address?',
        'bad.yaml:3:12: error: server.workers is 0; expected at least 1.',
        'bad.yaml cannot be used: 2 errors.',
        '',
      ].join('\n'),
      stderr: '',
    });
  });

  test('warns without refusing', async () => {
    await put('odd.yaml', `${BACKEND}rate_limit:\n  policies:\n    a: { average: 1 }\n`);

    const { exitCode, stdout } = await spillgate(['check', 'odd.yaml']);

    expect(exitCode).toBe(0);
    expect(stdout).toBe(
      'odd.yaml:4:8: warning: rate_limit.policies.a is not used by any rule. Add it to the policies of a rule.\nodd.yaml is valid: 1 warning.\n',
    );
  });

  test.each([
    ['nobackend.yaml:1:1', 'server:\n  address: ":8080"\n'],
    ['nobackend.yaml:4:3', 'server:\n  address: ":8080"\nbackend:\n  timeout: "5s"\n'],
  ])('refuses at %s a file without a service: no request could be answered', async (place, text) => {
    await put('nobackend.yaml', text);
    const error = `${place}: error: neither backend.url nor backend.upstreams is set, so every request gets a 502. Set backend.url to the address of your service.\n`;

    const checked = await spillgate(['check', 'nobackend.yaml']);
    const shown = await spillgate(['config', '--config', 'nobackend.yaml']);
    const completed = await spillgate(['check', 'nobackend.yaml'], { SPILLGATE_BACKEND_URL: 'http://a:1' });
    const bare = await spillgate(['config']);

    expect(checked).toEqual({
      exitCode: 1,
      stdout: `${error}nobackend.yaml cannot be used: 1 error.\n`,
      stderr: '',
    });
    expect(shown).toMatchObject({ exitCode: 0, stderr: error });
    expect(completed.stdout).toBe('nobackend.yaml is valid.\n');
    expect(bare.stderr).toBe('');
  });

  test('only warns of a missing service where the limits service is told which it may name, and is always asked', async () => {
    const external = 'rate_limit:\n  external: { enabled: true, http: { url: "https://a/" } }\n';
    await put('named.yaml', `${external}backend: { url_policy: { allowed_hosts: [b.example] } }\n`);
    await put('forgotten.yaml', external);
    await put('unasked.yaml', `${external}  rules: [{ name: free, match: { path: "/free" } }]\n`);

    const named = await spillgate(['check', 'named.yaml']);
    const forgotten = await spillgate(['check', 'forgotten.yaml']);
    const unasked = await spillgate(['check', 'unasked.yaml']);

    expect([named, forgotten, unasked].map(({ exitCode }) => exitCode)).toEqual([0, 1, 1]);
    expect(named.stdout).toContain('requests get a 502 unless the limits service names a backend');
    expect(forgotten.stdout).toMatch(
      /error: .* 502 unless .* Set backend\.url .* in backend\.url_policy\.allowed_hosts\.\n/,
    );
    expect(unasked.stdout).toContain(
      'error: neither backend.url nor backend.upstreams is set, so requests of the rule "free" get a 502',
    );
  });

  test('prints problems as JSON', async () => {
    await put('bad.yaml', 'server:\n  workers: 0\n');

    const { exitCode, stdout } = await spillgate(['check', '--json', 'bad.yaml']);

    expect(exitCode).toBe(1);
    expect(JSON.parse(stdout)).toEqual({
      ok: false,
      problems: [
        {
          severity: 'error',
          origin: { from: 'file', file: 'bad.yaml', line: 2, column: 12 },
          path: 'server.workers',
          message: 'server.workers is 0; expected at least 1',
        },
      ],
    });
  });

  test('a file that cannot be read is exit code 2', async () => {
    expect(await spillgate(['check', 'missing.yaml'])).toEqual({
      exitCode: 2,
      stdout: '',
      stderr: 'missing.yaml does not exist.\n',
    });
  });

  test('colours are for those who want them', async () => {
    await put('good.yaml', 'backend:\n  url: "http://localhost:3000"\n');

    const forced = await spillgate(['check', 'good.yaml'], { FORCE_COLOR: '1' });
    const refused = await spillgate(['check', 'good.yaml'], { FORCE_COLOR: '1', NO_COLOR: '1' });

    expect(forced.stdout).toBe('\u001b[32mgood.yaml is valid\u001b[0m.\n');
    expect(refused.stdout).toBe('good.yaml is valid.\n');
  });
});

describe('spillgate config', () => {
  test('shows what is in effect, where it came from, and no secret', async () => {
    await put('redis.yaml', 'redis:\n  password: hunter2-planted\n');

    const { exitCode, stdout } = await spillgate(['config', '--config', 'redis.yaml'], {
      SPILLGATE_SERVER_ADDRESS: ':7070',
    });

    expect(exitCode).toBe(0);
    expect(stdout).toContain('address: :7070 # SPILLGATE_SERVER_ADDRESS\n');
    expect(stdout).toContain('password: "********" # redis.yaml:2:13\n');
    expect(stdout).toContain('workers: 1 # default\n');
    expect(stdout).not.toContain('hunter2');
  });

  test('as JSON, with the file from the environment', async () => {
    await put('a.yaml', 'server:\n  workers: 1\n');

    const { stdout } = await spillgate(['config', '--json'], { SPILLGATE_CONFIG: 'a.yaml' });

    const parsed: unknown = JSON.parse(stdout);
    expect(parsed).toMatchObject({ config: { server: { workers: 1, idle_timeout: '2m' } } });
    expect(parsed).toHaveProperty(
      'settings',
      expect.arrayContaining([
        { path: 'server.workers', value: 1, origin: { from: 'file', file: 'a.yaml', line: 2, column: 12 } },
        { path: 'server.idle_timeout', value: '2m', origin: { from: 'default' } },
      ]),
    );
  });

  test('a broken configuration is not shown: its problems are', async () => {
    const { exitCode, stdout, stderr } = await spillgate(['config'], { SPILLGATE_SERVER_WORKERS: '0' });

    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' });
    expect(stderr).toBe('SPILLGATE_SERVER_WORKERS: error: server.workers is 0; expected at least 1.\n');
  });
});

test('secrets that lists name are shown as the log shows them, and mean the same', async () => {
  await put(
    'lists.yaml',
    `${BACKEND}rate_limit:
  key_strategy: { type: header, header_name: X-Api-Key }
  deny: { keys: [hunter2-denied] }
  policies: { p: { average: 1, overrides: [{ key: hunter2-override, average: 2 }] } }
  rules:
    - { name: r, policies: [p], allow: { keys: [hunter2-allowed] } }
`,
  );

  const { stdout } = await spillgate(['config', 'lists.yaml']);
  await put('shown.yaml', stdout);
  const again = await spillgate(['config', 'shown.yaml']);
  const json = await spillgate(['config', '--json', 'lists.yaml']);

  expect(stdout + json.stdout).not.toContain('hunter2');
  expect(stdout.match(/sha256:[0-9a-f]{32}/g)).toHaveLength(3);
  expect(again.stdout.match(/sha256:[0-9a-f]{32}/g)).toEqual(stdout.match(/sha256:[0-9a-f]{32}/g));
});

test.each([
  ['warns of', '', ['paths.yaml:4:41: warning: the rule login (and 1 more) matches its path exactly']],
  ['accepts', ', lenient_path: true', []],
  ['accepts', ', lenient_path: false', []],
])('check %s rules with exact paths%s', async (_, lenient, warnings) => {
  await put(
    'paths.yaml',
    `${BACKEND}rate_limit:
  average: 10
  rules: [{ name: login, match: { path: /login${lenient} }, policies: [default] },
    { name: a, match: { path: /a${lenient} }, policies: [default] }, { name: free, match: { path: /free } }]
`,
  );

  const { stdout } = await spillgate(['check', 'paths.yaml']);

  const said = stdout.split('\n').filter((line) => line.includes(': warning: '));
  expect(said.map((line) => line.split(', but')[0])).toEqual(warnings);
});

describe('spillgate init', () => {
  test('writes a file that check accepts, and never replaces one unasked', async () => {
    const first = await spillgate(['init', 'new.yaml']);
    const checked = await spillgate(['check', 'new.yaml']);
    await put('new.yaml', 'mine');
    const second = await spillgate(['init', 'new.yaml']);
    const kept = await readFile(join(folder, 'new.yaml'), 'utf8');
    const forced = await spillgate(['init', 'new.yaml', '--force']);

    expect(first.exitCode).toBe(0);
    expect(checked.stdout).toBe('new.yaml is valid.\n');
    expect(second.exitCode).toBe(2);
    expect(second.stderr).toContain('exists already');
    expect(kept).toBe('mine');
    expect(forced.exitCode).toBe(0);
  });

  test('names a schema for editors, which lies beside the file', async () => {
    await spillgate(['init', 'edited.yaml']);
    const [modeline = ''] = (await readFile(join(folder, 'edited.yaml'), 'utf8')).split('\n');
    const name = /^# yaml-language-server: \$schema=(\S+)$/.exec(modeline)?.[1] ?? '';

    const schema: unknown = JSON.parse(await readFile(join(folder, name), 'utf8'));

    expect(schema).toHaveProperty('properties.rate_limit.properties.period.description');
  });
});

describe('a configuration', () => {
  test('is read from standard input', async () => {
    expect(await shell(`echo '${BACKEND}' | "$SPILLGATE" check -`)).toEqual({
      exitCode: 0,
      stdout: '- is valid.\n',
      stderr: '',
    });
    expect(await shell(`echo 'servers: {}' | "$SPILLGATE" check -`)).toMatchObject({
      exitCode: 1,
      stdout: expect.stringContaining('-:1:1: error: servers is not a setting'),
    });
  });

  test('is read from a process substitution, by a gateway that runs, too', async () => {
    const file = `printf 'server: { address: "127.0.0.1:0" }\\nadmin: { enabled: false }\\n%s' '${BACKEND.trim()}'`;

    const checked = await shell(`"$SPILLGATE" check <(${file})`);
    const ran = await shell(
      `"$SPILLGATE" run <(${file}) > run.log 2>&1 & pid=$!; until grep -q ready run.log; do kill -0 $pid || break; done; kill $pid; cat run.log`,
    );

    expect(checked).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(' is valid.\n') });
    expect(ran.stdout).toContain('ready');
    expect(ran.stdout).not.toContain('the file is empty');
  });

  test('is shown by name like it is checked and run', async () => {
    await put('shown.yaml', BACKEND);

    const shown = await spillgate(['config', 'shown.yaml']);

    expect(shown).toEqual(await spillgate(['config', '--config', 'shown.yaml']));
    expect(shown.stdout).toContain('url: http://localhost:3000 # shown.yaml:1:17');
    expect(await spillgate(['config', 'shown.yaml', '--config', 'other.yaml'])).toMatchObject({
      exitCode: 2,
    });
  });
});

describe('spillgate', () => {
  test('prints its JSON Schema', async () => {
    const { stdout } = await spillgate(['schema']);

    expect(JSON.parse(stdout)).toHaveProperty('properties.rate_limit.properties.rules');
  });

  test('explains itself with examples', async () => {
    const { exitCode, stdout } = await spillgate(['--help']);

    expect(exitCode).toBe(0);
    for (const command of ['run', 'check', 'config', 'init', 'schema', 'completion'])
      expect(stdout).toContain(command);
    expect(stdout).toContain('Examples:\n  spillgate run ');
  });

  test('says its version', async () => {
    const manifest: unknown = JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8'));

    const { stdout } = await spillgate(['--version']);

    expect(manifest).toHaveProperty('version', stdout.trim());
  });

  test.each([
    [['chekc', 'a.yaml'], "unknown command 'chekc'"],
    [['repair', '--help'], "unknown command 'repair'"],
    [['repair', '-h'], "unknown command 'repair'"],
    [['--help', 'repair'], "unknown command 'repair'"],
    [['check'], "missing required argument 'file'"],
    [['config', '--jsn'], "unknown option '--jsn'"],
    [['run', '--port', '80'], '(see spillgate run --help)'],
    [['api-keys', 'add'], '(see spillgate api-keys add --help)'],
    [['completion', 'tcsh'], 'Allowed choices are bash, zsh, fish'],
  ])('%j is wrong usage: exit code 2', async (args, message) => {
    const { exitCode, stdout, stderr } = await spillgate(args);

    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
    expect(stderr).toContain(message);
  });

  test('completes commands and options in bash', async () => {
    const { stdout } = await spillgate(['completion', 'bash']);
    const ask = `${stdout}\nCOMP_WORDS=(spillgate "$@"); COMP_CWORD=$#; _spillgate; echo "\${COMPREPLY[@]}"`;

    expect(await run('bash', ['--norc', '-c', ask, '-', 'ch'])).toMatchObject({
      stdout: 'check\n',
      stderr: '',
    });
    expect(await run('bash', ['--norc', '-c', ask, '-', 'config', '--j'])).toMatchObject({
      stdout: '--json\n',
    });
    await put('here.yaml', '');
    expect(await run('bash', ['--norc', '-c', ask, '-', 'peek', '--config', 'her'])).toMatchObject({
      stdout: 'here.yaml\n',
      stderr: '',
    });
    expect(await run('bash', ['--norc', '-c', ask, '-', 'peek', 'her'])).toMatchObject({ stdout: '\n' });
    expect(await run('bash', ['--norc', '-c', ask, '-', 'completion', 'z'])).toMatchObject({
      stdout: 'zsh\n',
    });
  });

  test.each(['zsh', 'fish'])('knows every command in %s', async (name) => {
    const { stdout } = await spillgate(['completion', name]);

    for (const command of ['run', 'check', 'config', 'init', 'schema', 'completion'])
      expect(stdout).toContain(command);
  });
});

interface Outcome {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function put(name: string, text: string): Promise<void> {
  await writeFile(join(folder, name), text);
}

test('a disk that is full is said in one line, with exit code 2', async () => {
  const { exitCode, stderr } = await shell('"$SPILLGATE" config > /dev/full');

  expect(exitCode).toBe(2);
  expect(stderr).toBe('cannot write to standard output (ENOSPC).\n');
});

/** Runs a line of bash in which `$SPILLGATE` is the program. */
async function shell(line: string): Promise<Outcome> {
  await put('spillgate', `#!/bin/sh\nexec "${process.execPath}" "${PROGRAM}" "$@"\n`);
  await chmod(join(folder, 'spillgate'), 0o755);
  return run('bash', ['--norc', '-c', line], { SPILLGATE: './spillgate' });
}

async function spillgate(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  return run(process.execPath, [PROGRAM, ...args], env);
}

async function run(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  return new Promise((resolve) => {
    const { PATH = '' } = process.env;
    execFile(program, args, { cwd: folder, env: { PATH, ...env } }, (error, stdout, stderr) => {
      resolve({ exitCode: typeof error?.code === 'number' ? error.code : 0, stdout, stderr });
    });
  });
}
