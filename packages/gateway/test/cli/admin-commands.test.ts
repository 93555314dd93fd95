import { createServer } from 'node:http';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { CONFIG, runAdmin, type Running } from '../admin/running-admin.ts';
import { spillgate } from './terminal.ts';

const TOKEN = 'a-token-of-some-length';
let running: Running;
let admin: readonly string[];

beforeEach(async () => {
  running = await runAdmin();
  admin = ['--admin', `http://127.0.0.1:${running.admin.address.port}`];
});

afterEach(async () => {
  await running.stop();
});

describe('spillgate peek', () => {
  test('shows how a key stands', async () => {
    await running.limiter.check(policy('daily').for('ann'), { cost: 400 });

    const { exitCode, stdout } = await spillgate(['peek', 'daily', 'ann', ...admin]);

    expect(exitCode).toBe(0);
    expect(stdout).toMatch(
      /^daily\/ann would be allowed\.\n {2}left {8}600 of 1000\n {2}full again {2}in (?:\d+[hms])+\n$/,
    );
    expect(stdout).not.toContain('ms');
  });

  test('says milliseconds where it is less than a second', async () => {
    await running.limiter.check(policy('api').for('ann'));

    expect((await spillgate(['peek', 'api', 'ann', ...admin])).stdout).toMatch(
      /^ {2}left {8}19 of 20\n {2}full again {2}in \d{1,3}ms$/m,
    );
  });

  test('says that a key was never used', async () => {
    const { stdout } = await spillgate(['peek', 'daily', 'nobody', ...admin]);

    expect(stdout).toBe(
      'daily/nobody would be allowed.\n  left        1000 of 1000\n  never used, or all of it has come back (or not a key of this policy)\n',
    );
  });

  test('says for how long it would be denied', async () => {
    await running.limiter.check(policy('daily').for('ann'), { cost: 1000 });

    expect((await spillgate(['peek', 'daily', 'ann', ...admin])).stdout).toMatch(
      /^daily\/ann would be denied for another \d+[hms]/,
    );
    expect((await spillgate(['peek', 'daily', 'ann', '--cost', '1001', ...admin])).stdout).toMatch(
      /^daily\/ann would be denied: this cost never fits\.$/m,
    );
  });

  test('prints JSON', async () => {
    const { stdout } = await spillgate(['peek', 'api', 'ann', '--json', ...admin]);

    expect(JSON.parse(stdout)).toMatchObject({ policy: 'api', key: 'ann', remaining: 20 });
  });

  test('needs the policy where there are several', async () => {
    expect(await spillgate(['peek', 'ann', ...admin])).toEqual({
      exitCode: 2,
      stdout: '',
      stderr: 'Name one of the policies with --policy: api, queue, daily, default.\n',
    });
    expect((await spillgate(['peek', 'ann', '--policy', 'api', ...admin])).exitCode).toBe(0);
  });

  test('needs no policy where there is one', async () => {
    running.state.policies = new Map([...running.state.policies].slice(0, 1));

    expect((await spillgate(['peek', 'ann', ...admin])).stdout).toMatch(/^api\/ann would be allowed/);
  });

  test.each(['..', 'a/b', 'a b', 'ä', '<img>', '%2e', '?x#y', '-dash'])('reaches the key %j', async (key) => {
    await running.limiter.check(policy('daily').for(key), { cost: 3 });

    const { stdout } = await spillgate(['peek', '--json', ...admin, '--', 'daily', key]);

    expect(JSON.parse(stdout)).toMatchObject({ key, remaining: 997 });
  });

  test('a key cannot write to the terminal', async () => {
    const { stdout } = await spillgate(['peek', 'api', '\u001b[2J\n', ...admin]);

    expect(stdout).toContain('api/\\u001b[2J\\u000a would be allowed');
  });

  test('says what the gateway says', async () => {
    expect(await spillgate(['peek', 'nope', 'ann', ...admin])).toEqual({
      exitCode: 2,
      stdout: '',
      stderr: 'The policy is "nope"; expected one of api, queue, daily, default.\n',
    });
  });

  test('three words are too many', async () => {
    expect((await spillgate(['peek', 'api', 'ann', 'bob', ...admin])).stderr).toMatch(/^Give a KEY/);
  });
});

test('spillgate forget makes a key new', async () => {
  await running.limiter.check(policy('daily').for('ann'), { cost: 400 });

  const { exitCode, stdout } = await spillgate(['forget', 'daily', 'ann', ...admin]);

  expect([exitCode, stdout]).toEqual([0, 'daily/ann is as if it had never been used.\n']);
  expect((await running.limiter.peek(policy('daily').for('ann'))).remaining).toBe(1000);
});

test('spillgate forget says that a block stays', async () => {
  await spillgate(['block', 'daily', 'ann', ...admin]);

  const { stdout } = await spillgate(['forget', 'daily', 'ann', ...admin]);

  expect(stdout).toBe(
    'daily/ann is as if it had never been used. It stays blocked: block --remove ends that.\n',
  );
});

describe('spillgate health', () => {
  test('exits with 0 while the gateway takes requests, else with 1', async () => {
    expect(await spillgate(['health', ...admin])).toEqual({ exitCode: 0, stdout: 'ready\n', stderr: '' });

    running.state.phase = 'draining';

    expect(await spillgate(['health', ...admin])).toMatchObject({
      exitCode: 1,
      stdout: 'not ready: draining\n',
    });
  });

  test('names what is behind the gateway', async () => {
    const { stdout } = await spillgate(['health', '--deep', ...admin]);

    expect(stdout).toMatch(
      /^ready\n {2}up {3}store memory.*\n {2}down backend http:\/\/10\.0\.0\.1:3000: refused\n$/,
    );
  });

  test('a gateway that is asked wrongly is not called unready', async () => {
    await running.stop();
    running = await runAdmin(CONFIG.replace('admin:\n', `admin:\n  token: ${TOKEN}\n`));
    const url = `http://127.0.0.1:${running.admin.address.port}`;

    expect(await spillgate(['health', '--deep', '--admin', url])).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: `${url} does not say whether it is ready: Send the token of the gateway as "Authorization: Bearer ..."; it is the setting admin.token.\n`,
    });
  });

  test('works where the configuration allows another host only', async () => {
    await running.stop();
    running = await runAdmin(CONFIG.replace('admin:\n', 'admin:\n  allowed_hosts: [gw.internal]\n'));
    admin = ['--admin', `http://127.0.0.1:${running.admin.address.port}`];

    expect((await spillgate(['health', '--deep', ...admin])).stdout).toMatch(/^ready\n/);
    expect((await spillgate(['peek', 'api', 'ann', ...admin])).exitCode).toBe(0);
  });

  test('exits with 1 if nobody answers', async () => {
    await running.stop();

    const { exitCode, stderr } = await spillgate(['health', ...admin]);

    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/does not answer \(ECONNREFUSED\)/);
  });

  test.each([':PORT', '0.0.0.0:PORT', '[::]:PORT', '127.0.0.1:PORT'])(
    'finds the gateway that the environment sets to %s',
    async (address) => {
      const env = { SPILLGATE_ADMIN_ADDRESS: address.replace('PORT', String(running.admin.address.port)) };

      expect((await spillgate(['health'], { env })).exitCode).toBe(0);
    },
  );

  test.each(['localhost:PORT', '127.0.0.1:PORT', ':PORT', 'http://localhost:PORT/'])(
    'finds the gateway at --admin %s',
    async (address) => {
      const url = address.replace('PORT', String(running.admin.address.port));

      expect((await spillgate(['health', '--admin', url])).exitCode).toBe(0);
    },
  );

  test('colours are for terminals without NO_COLOR', async () => {
    const painted = await spillgate(['health', ...admin], { isTerminal: true });
    const plain = await spillgate(['health', ...admin], { isTerminal: true, env: { NO_COLOR: '1' } });

    expect([painted.stdout, plain.stdout]).toEqual(['\u001b[32mready\u001b[0m\n', 'ready\n']);
  });
});

describe('the token', () => {
  beforeEach(async () => {
    await running.stop();
    running = await runAdmin(CONFIG.replace('admin:\n', `admin:\n  token: ${TOKEN}\n`));
    admin = ['--admin', `http://127.0.0.1:${running.admin.address.port}`];
  });

  test.each([
    ['a variable', { env: { SPILLGATE_ADMIN_TOKEN: TOKEN } }],
    ['a file', { env: { SPILLGATE_ADMIN_TOKEN_FILE: '/token' }, files: { '/token': `${TOKEN}\n` } }],
  ])('comes from %s', async (_, terminal) => {
    expect((await spillgate(['peek', 'api', 'ann', ...admin], terminal)).exitCode).toBe(0);
  });

  test('and the address come from the file that the gateway runs with', async () => {
    const address = `127.0.0.1:${running.admin.address.port}`;
    const file = `admin: { address: "${address}", token: ${TOKEN} }`;

    const { exitCode } = await spillgate(['health', '--deep'], {
      env: { SPILLGATE_CONFIG: 'gateway.yaml' },
      files: { 'gateway.yaml': file },
    });

    expect(exitCode).toBe(0);
  });

  test('and the address come from --config, the token also for an address of its own', async () => {
    const { port } = running.admin.address;
    const files = {
      'gateway.yaml': `admin: { address: ":${port}", token: ${TOKEN} }`,
      'elsewhere.yaml': `admin: { address: ":1", token: ${TOKEN} }`,
    };

    for (const args of [
      ['--config', 'gateway.yaml'],
      ['--config', 'elsewhere.yaml', '--admin', `localhost:${port}`],
    ]) {
      for (const command of [
        ['peek', 'api', 'ann'],
        ['forget', 'api', 'ann'],
        ['health', '--deep'],
      ]) {
        expect(await spillgate([...command, ...args], { files })).toMatchObject({ exitCode: 0, stderr: '' });
      }
    }
  });

  test('of the file that the environment names goes to no other address', async () => {
    const { exitCode, stderr } = await spillgate(['peek', 'api', 'ann', ...admin], {
      env: { SPILLGATE_CONFIG: 'gateway.yaml' },
      files: { 'gateway.yaml': `admin: { token: ${TOKEN} }` },
    });

    expect([exitCode, stderr]).toEqual([2, expect.stringMatching(/^Send the token/)]);
  });

  test.each([
    ['gone.yaml', '--config names gone.yaml, which does not exist.\n'],
    [
      'bad.yaml',
      '--config names bad.yaml, which has problems: see spillgate check bad.yaml, or give the address by --admin.\n',
    ],
  ])('cannot come from %s', async (file, complaint) => {
    const { exitCode, stderr } = await spillgate(['peek', 'api', 'ann', '--config', file], {
      files: { 'bad.yaml': 'admin: 1' },
    });

    expect([exitCode, stderr]).toEqual([2, complaint]);
  });

  test('a file of the environment with problems is said where nobody answers', async () => {
    const { exitCode, stderr } = await spillgate(['peek', 'api', 'ann'], {
      env: { SPILLGATE_CONFIG: 'bad.yaml', SPILLGATE_ADMIN_ADDRESS: '127.0.0.1:1' },
      files: { 'bad.yaml': 'admin: 1' },
    });

    expect([exitCode, stderr]).toEqual([
      2,
      'http://127.0.0.1:1 does not answer (ECONNREFUSED). SPILLGATE_CONFIG names bad.yaml, which has problems: see spillgate check bad.yaml, or give the address by --admin.\n',
    ]);
  });

  test('is asked for where it is missing', async () => {
    expect((await spillgate(['peek', 'api', 'ann', ...admin])).stderr).toMatch(/^Send the token/);
  });

  test('can be any text', async () => {
    const token = 'Schlüssel mit Leerzeichen €';
    await running.stop();
    running = await runAdmin(CONFIG.replace('admin:\n', `admin:\n  token: ${token}\n`));
    admin = ['--admin', `http://127.0.0.1:${running.admin.address.port}`];

    const right = await spillgate(['peek', 'api', 'ann', ...admin], {
      env: { SPILLGATE_ADMIN_TOKEN: token },
    });
    const wrong = await spillgate(['peek', 'api', 'ann', ...admin], {
      env: { SPILLGATE_ADMIN_TOKEN: `${token}!` },
    });

    expect([right.exitCode, wrong.exitCode]).toEqual([0, 2]);
  });

  test('a file that is not there is named', async () => {
    const { stderr } = await spillgate(['peek', 'api', 'ann', ...admin], {
      env: { SPILLGATE_ADMIN_TOKEN_FILE: '/nope' },
    });

    expect(stderr).toBe('SPILLGATE_ADMIN_TOKEN_FILE names /nope, which does not exist.\n');
  });
});

describe('an address that is not the gateway', () => {
  const COMMANDS = [
    ['peek', 'api', 'ann'],
    ['peek', 'ann'],
    ['forget', 'api', 'ann'],
    ['override', 'api', 'ann', '--burst', '5'],
    ['override', 'api', 'ann', '--remove'],
    ['health'],
  ];

  test.each(['nonsense', 'localhost:9090/path', 'localhost:99999', 'ftp://x', 'http://127.0.0.1:1/path'])(
    '%s is refused',
    async (url) => {
      expect((await spillgate(['peek', 'api', 'ann', '--admin', url])).stderr).toMatch(
        /^--admin is .*expected an address/,
      );
    },
  );

  test.each(['<html>', '{"hello":"world"}', '[]', 'null', '{"status":"UP"}', '{"policies":[{}]}'])(
    'what answers %s is no gateway, whatever is asked',
    async (body) => {
      const url = await answering(200, body);

      for (const command of COMMANDS) {
        expect(await spillgate([...command, '--admin', url])).toEqual({
          exitCode: command[0] === 'health' ? 1 : 2,
          stdout: '',
          stderr: `${url} does not answer as a gateway does. Is this its admin address?\n`,
        });
      }
    },
  );

  test.each([404, 500, 503])('nor is what answers %i without a reason', async (status) => {
    const url = await answering(status, '{"error":"nope"}');

    for (const command of COMMANDS) {
      expect((await spillgate([...command, '--admin', url])).stderr).toBe(
        `${url} answered ${status}, and not as a gateway does. Is this its admin address?\n`,
      );
    }
  });

  test('a newer gateway may say more than is known here', async () => {
    const state = await running.fetch('/v1/keys/api/ann');
    const url = await answering(200, JSON.stringify({ ...Object(state.json), weather: 'fine' }));

    expect((await spillgate(['peek', 'api', 'ann', '--admin', url])).stdout).toMatch(
      /^api\/ann would be allowed/,
    );
  });
});

/** The address of a server that says the same to everybody. */
async function answering(status: number, body: string): Promise<string> {
  const server = createServer((_, response) => response.writeHead(status).end(body));
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
}

function policy(name: string) {
  const found = running.state.policies.get(name);
  if (found === undefined) throw new Error(`no policy ${name}`);
  return found;
}

test('a token that no header can hold is refused in words', async () => {
  const env = { SPILLGATE_ADMIN_TOKEN: 'a-token\nof two lines' };

  const { exitCode, stderr } = await spillgate(['overrides', '--admin', '127.0.0.1:1'], { env });

  expect([exitCode, stderr]).toEqual([2, expect.stringContaining('The admin token contains a line break')]);
  expect(stderr).not.toContain('a-token');
});
