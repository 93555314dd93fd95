import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startRedis, type RedisServer } from '../servers.ts';
import {
  expectAccounted,
  expectDistinct,
  expectInTime,
  expectRecovery,
  expectSound,
} from './expectations.ts';
import { FaultRun } from './fault-run.ts';
import { Proxy } from './proxy.ts';

const RESET_INTERVAL_MS = 20;

let server: RedisServer;
let proxy: Proxy;
let run: FaultRun;

beforeEach(async () => {
  server = await startRedis();
  proxy = await Proxy.start({ port: server.port });
  run = await FaultRun.start({ url: proxy.url }, 'failClosed');
});

afterEach(async () => {
  await run.close();
  await proxy.stop();
  await server.stop();
});

describe('connections under load', () => {
  test('resets, again and again, charge no check twice', async () => {
    let resets: NodeJS.Timeout | undefined;
    const report = await run.suffer({
      strike: async () => {
        proxy.reset();
        resets = setInterval(() => {
          proxy.reset();
        }, RESET_INTERVAL_MS);
      },
      // Between two resets it may well be up.
      expected: () => true,
      heal: async () => {
        clearInterval(resets);
      },
    });

    expectInTime(report);
    expectRecovery(report);
    expect(report.causes).toMatch(/ECONNRESET|EPIPE|connection/);
    await expectDistinct(run);
    await expectAccounted({ url: server.url }, run.answers);
  });

  test('CLIENT KILL costs what was under way, and nothing else', async () => {
    const report = await run.suffer({
      strike: () => server.command('CLIENT', 'KILL', 'TYPE', 'normal'),
      expected: () => true,
      heal: async () => undefined,
    });

    expectInTime(report);
    expectRecovery(report);
    expect(report.causes).toMatch(/connection|ECONNRESET|EPIPE/);
    await expectDistinct(run);
    await expectAccounted({ url: server.url }, run.answers);
  });

  test('one that leads nowhere any more is given up for a new one', async () => {
    const report = await run.suffer({
      strike: async () => {
        proxy.forsake();
      },
      heal: async () => undefined,
    });

    expectSound(report);
    expect(report.causes).toContain('did not answer within');
    await expectDistinct(run);
    await expectAccounted({ url: server.url }, run.answers);
  });

  test('one that leads to a former master is given up for a new one, which finds the present master', async () => {
    const successor = await startRedis({ config: [`replicaof ${server.host} ${server.port}`] });
    try {
      const report = await run.suffer({
        strike: async () => {
          await successor.command('REPLICAOF', 'NO', 'ONE');
          await server.command('REPLICAOF', successor.host, successor.port);
        },
        expected: ({ status, nodes }) => status === 'down' && nodes[0]?.detail.includes('READONLY') === true,
        // As a name or a virtual address that now belongs to another machine.
        heal: async () => {
          proxy.redirect(successor.port);
        },
      });

      expectSound(report);
      expect(report.causes).toContain('READONLY');
    } finally {
      await successor.stop();
    }
  });

  test('a server that takes no more of them is down, and says why', async () => {
    const admin = await server.connect();
    try {
      const report = await run.suffer({
        strike: async () => {
          await admin.command('CONFIG', 'SET', 'maxclients', '1');
          await admin.command('CLIENT', 'KILL', 'TYPE', 'normal');
        },
        expected: ({ status, nodes }) =>
          status === 'down' && nodes[0]?.detail.includes('max number of clients reached') === true,
        heal: () => admin.command('CONFIG', 'SET', 'maxclients', '1000'),
      });

      expectSound(report);
      expect(report.causes).toContain('max number of clients reached');
      await expectDistinct(run);
      await expectAccounted({ url: server.url }, run.answers);
    } finally {
      admin.close();
    }
  });

  test('a password that was changed is a matter of configuration, until it is the right one', async () => {
    const report = await run.suffer({
      strike: async () => {
        await server.command('CONFIG', 'SET', 'requirepass', 'sesame');
        await server.command('CLIENT', 'KILL', 'TYPE', 'normal');
      },
      expected: ({ status, nodes }) => status === 'down' && nodes[0]?.detail.includes('NOAUTH') === true,
      heal: () => server.command('CONFIG', 'SET', 'requirepass', ''),
    });

    expectSound(report);
    expect(report.causes).toMatch(/^STORE_MISCONFIGURED .*NOAUTH/m);
    await expectDistinct(run);
    await expectAccounted({ url: server.url }, run.answers);
  });
});
