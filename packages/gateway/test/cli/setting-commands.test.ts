// Commands that change what single keys get.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { runAdmin, type Running } from '../admin/running-admin.ts';
import { spillgate } from './terminal.ts';

let running: Running;
let admin: readonly string[];

beforeEach(async () => {
  running = await runAdmin();
  admin = ['--admin', `http://127.0.0.1:${running.admin.address.port}`];
});

afterEach(async () => {
  await running.stop();
});

function overrideOf(name: string, key: string): unknown {
  return running.fleet.find({ kind: 'override', policy: name, key })?.numbers;
}

describe('spillgate override', () => {
  test('gives numbers and takes them back', async () => {
    const given = await spillgate(['override', 'api', 'ann', '--burst', '70', '--period', '2m', ...admin]);
    expect([given.exitCode, given.stdout]).toEqual([
      0,
      'api/ann has burst 70, period 2m now: at most 70 at once.\nThis holds in this gateway until it stops: set redis or state_dir to keep overrides.\n',
    ]);
    expect(overrideOf('api', 'ann')).toEqual({ burst: 70, period: '2m' });
    expect((await spillgate(['peek', 'api', 'ann', ...admin])).stdout).toContain(
      '  override    burst 70, period 2m\n',
    );

    const removed = await spillgate(['override', 'api', 'ann', '--remove', ...admin]);

    expect(removed.stdout).toBe('api/ann has the numbers of the configuration again: at most 20 at once.\n');
    expect(policy('api').for('ann').limit).toBe(20);
  });

  test('a number that does not change what fits at once is named all the same', async () => {
    const { stdout } = await spillgate(['override', 'api', 'ann', '--average', '1000', ...admin]);
    expect(stdout).toMatch(/^api\/ann has average 1000 now: at most 20 at once\.\n/);
  });

  test('max-delay is the max_delay of a queue', async () => {
    await spillgate(['override', 'queue', 'ann', '--max-delay', '9s', ...admin]);

    expect(overrideOf('queue', 'ann')).toEqual({ maxDelay: '9s' });
    expect((await spillgate(['peek', 'queue', 'ann', ...admin])).stdout).toContain('max delay 9s\n');
  });

  test.each([
    [[], /at least one number/],
    [['--remove', '--burst', '5'], /not both/],
    [['--burst', '1.5'], /--burst is "1.5"; expected a whole number/],
    [['--quota', '5'], /tokenBucket\(\) does not know "quota"/],
  ])('%j is refused', async (options, message) => {
    const { exitCode, stderr } = await spillgate(['override', 'api', 'ann', ...options, ...admin]);

    expect(exitCode).toBe(2);
    expect(stderr).toMatch(message);
  });
});

test('an override tells until when, who gave it and why', async () => {
  const words = ['--burst', '70', '--expires-in', '2h', '--by', 'eve', '--note', 'ticket 12'];
  const { stdout } = await spillgate(['override', 'api', 'ann', ...words, ...admin]);

  expect(stdout).toMatch(/^api\/ann has burst 70 now until 2\d{3}-\S+Z: at most 70 at once\.\n/);
  const kept = running.fleet.find({ kind: 'override', policy: 'api', key: 'ann' });
  expect(kept).toMatchObject({ by: 'eve', note: 'ticket 12' });
  expect(Date.parse(kept?.expiresAt ?? '') - Date.parse(kept?.setAt ?? '')).toBe(7_200_000);
});

describe('spillgate block', () => {
  test('denies everything to a key until it is ended', async () => {
    const blocked = await spillgate(['block', 'api', 'ann', ...admin]);
    const peeked = await spillgate(['peek', 'api', 'ann', ...admin]);
    const ended = await spillgate(['block', 'api', 'ann', '--remove', ...admin]);

    expect([blocked.exitCode, blocked.stdout]).toEqual([
      0,
      'api/ann is denied everything until you end it with --remove.\nThis holds in this gateway until it stops: set redis or state_dir to keep overrides.\n',
    ]);
    expect(peeked.stdout).toContain('  blocked     until somebody ends it\n');
    expect(ended.stdout).toBe('api/ann is not blocked.\n');
    expect((await running.limiter.check(policy('api').for('ann'))).allowed).toBe(true);
  });

  test('peek says nothing about what is left behind a block', async () => {
    await spillgate(['block', 'api', 'ann', ...admin]);

    const { stdout } = await spillgate(['peek', 'api', 'ann', ...admin]);

    expect(stdout).toBe('api/ann would be denied.\n  blocked     until somebody ends it\n');
  });

  test('says until when', async () => {
    const { stdout } = await spillgate(['block', 'api', 'ann', '--expires-in', '15m', ...admin]);

    expect(stdout).toMatch(/^api\/ann is denied everything until 2\d{3}-\S+Z\.\n/);
    expect((await running.limiter.check(policy('api').for('ann'))).source).toBe('block');
  });
});

function policy(name: string) {
  const found = running.state.policies.get(name);
  if (found === undefined) throw new Error(`no policy ${name}`);
  return found;
}
