import type { FailurePolicy } from 'spillgate';
import type { RedisStoreOptions } from 'spillgate/redis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startRedis, type RedisServer } from '../servers.ts';
import { CLIENT_FAMILIES } from '../store/clients.ts';
import { expectAccounted, expectDistinct, expectSound } from './expectations.ts';
import { FaultRun } from './fault-run.ts';

// The kernel of a dead server ends a connection orderly if it had read all of it, and resets it if it had not.
const LOST = /the server closed the connection|ECONNRESET|ECONNREFUSED|EPIPE/;

let server: RedisServer;

beforeEach(async () => {
  // It writes before it answers, so that it comes back with everything it has confirmed.
  server = await startRedis({ config: ['appendonly yes', 'appendfsync no'] });
});

afterEach(async () => {
  await server.stop();
});

describe('a server that is killed under load', () => {
  test('ten times: failClosed denies while it is away, and every admission is accounted for across all its lives', async () => {
    const causes = await killRepeatedly({ url: server.url }, 'failClosed', 10);

    expect(causes).toMatch(LOST);
  });

  test.each(['passThrough', 'inMemoryFallback'] as const)('%s answers while it is away', async (policy) => {
    const causes = await killRepeatedly({ url: server.url }, policy, 1);

    expect(causes).toContain(`127.0.0.1:${server.port} could not decide`);
  });

  test.each(CLIENT_FAMILIES)('twice, behind a client of $name', async ({ open }) => {
    const opened = await open(server, server.url);
    try {
      const causes = await killRepeatedly({ client: opened.client }, 'failClosed', 2);

      expect(causes).toContain('redis client is down');
    } finally {
      opened.close();
    }
  });
});

/** Answers every reason that was given for a decision the store could not make. */
async function killRepeatedly(
  options: RedisStoreOptions,
  failurePolicy: FailurePolicy,
  kills: number,
): Promise<string> {
  const run = await FaultRun.start(options, failurePolicy);
  const causes: string[] = [];
  try {
    for (let life = 1; life <= kills; life += 1) {
      const report = await run.suffer({ strike: () => server.kill(), heal: () => server.restart() });
      expectSound(report);
      causes.push(report.causes);
    }
    await expectDistinct(run);
    await expectAccounted({ url: server.url }, run.answers);
  } finally {
    await run.close();
  }
  return causes.join('\n');
}
