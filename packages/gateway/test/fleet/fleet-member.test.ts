import { AppliedSettings, KeyActivity, OwnSettings } from 'spillgate/internal';
import { expect, test, vi } from 'vitest';
import { FleetMember } from '../../src/fleet/fleet-member.ts';
import { keptLog } from '../proxy/gateway-settings.ts';

test('who leaves while it tells about itself is not listed afterwards', async () => {
  const listed = new Set<string>();
  let arrive = (): void => undefined;
  const publish = vi.fn<(id: string) => Promise<void>>(async (id) => {
    await new Promise<void>((resolve) => (arrive = resolve));
    listed.add(id);
  });
  const settings = new OwnSettings();
  const member = new FleetMember({
    applied: new AppliedSettings({
      policies: () => new Map(),
      configured: () => null,
      rejected: () => undefined,
    }),
    log: keptLog(),
    describe: async () => ({ version: '1', startedAt: '', configHash: '', policies: [], more: {} }),
    activities: async () => [
      { sums: { allowed: 0, denied: 0, undecided: 0 }, activity: new KeyActivity().snapshot(1) },
    ],
    changed: () => undefined,
  });
  await member.join({
    keptIn: 'redis',
    settings,
    instances: { publish, summaries: async () => [], withdraw: async (id) => void listed.delete(id) },
    close: async () => settings.close(),
  });
  await expect.poll(() => publish.mock.calls.length).toBe(1);

  const left = member.leave();
  arrive();
  await left;
  await new Promise((resolve) => setImmediate(resolve));

  expect([...listed]).toEqual([]);
});
