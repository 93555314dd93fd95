// With both packages installed a `url` is opened with ioredis. Here only node-redis is.
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startRedis, type RedisServer } from '../servers.ts';
import { expectAccounted, expectDistinct, expectSound } from './expectations.ts';
import { FaultRun, type Fault } from './fault-run.ts';
import { Proxy } from './proxy.ts';
import { hideIoredis } from './hidden-packages.ts';

const FREEZE_MS = 1800;

hideIoredis();

let server: RedisServer;
let proxy: Proxy;

beforeAll(async () => {
  // The store loads it when it is first needed, which may take longer than anything here.
  await import('redis');
});

beforeEach(async () => {
  server = await startRedis({ config: ['appendonly yes', 'appendfsync no'] });
  proxy = await Proxy.start({ port: server.port });
});

afterEach(async () => {
  await proxy.stop();
  await server.stop();
});

interface NamedFault {
  readonly what: string;
  readonly cause: RegExp;
  readonly fault: () => Fault;
}

const FAULTS: readonly NamedFault[] = [
  {
    what: 'is killed',
    cause: /ECONNRESET|ECONNREFUSED|Socket closed unexpectedly/,
    fault: () => ({ strike: () => server.kill(), heal: () => server.restart() }),
  },
  {
    what: 'stands still',
    cause: /did not answer within/,
    fault: () => ({
      strike: () => server.pause(),
      holdMs: FREEZE_MS,
      heal: async () => {
        server.resume();
      },
    }),
  },
  {
    what: 'loses its power and comes back',
    cause: /did not answer within/,
    fault: () => ({
      strike: async () => {
        proxy.forsake();
      },
      heal: async () => undefined,
    }),
  },
  {
    what: 'wants a password',
    cause: /^STORE_MISCONFIGURED .*NOAUTH/m,
    fault: () => ({
      strike: async () => {
        await server.command('CONFIG', 'SET', 'requirepass', 'sesame');
        await server.command('CLIENT', 'KILL', 'TYPE', 'normal');
      },
      expected: ({ status, nodes }) => status === 'down' && nodes[0]?.detail.includes('NOAUTH') === true,
      heal: () => server.command('CONFIG', 'SET', 'requirepass', ''),
    }),
  },
];

describe('by url with node-redis', () => {
  test.each(FAULTS)('a server that $what under load', async ({ cause, fault }) => {
    const run = await FaultRun.start({ url: proxy.url }, 'failClosed');
    try {
      const report = await run.suffer(fault());

      expectSound(report);
      expect(report.causes).toMatch(cause);
      await expectDistinct(run);
      await expectAccounted({ url: server.url }, run.answers);
    } finally {
      await run.close();
    }
  });
});

test('ioredis is really not there', async () => {
  await expect(import('ioredis')).rejects.toThrow("Cannot find package 'ioredis'");
});
