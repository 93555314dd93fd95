import { mkdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { LimiterError } from 'spillgate';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { eventually, ReplyError, startRedis, type RedisServer } from '../servers.ts';
import { CLIENT_FAMILIES } from '../store/clients.ts';
import { expectAccounted, expectDistinct, expectSound } from './expectations.ts';
import { FaultRun, type Fault } from './fault-run.ts';

const FILLER_KEYS = 1000;
const LOAD_DELAY_US = 700;

let server: RedisServer;

beforeEach(async () => {
  server = await startRedis({
    config: ['appendonly yes', 'appendfsync no', 'loading-process-events-interval-bytes 1024'],
  });
  // How long a probe waits is a matter of chance, and what a test sees must not be: 0.3 s, 0.6 s, 1.2 s and so on.
  vi.spyOn(Math, 'random').mockReturnValue(0.3);
});

afterEach(async () => {
  await server.stop();
});

interface Refusal {
  readonly code: string;
  readonly errorClass: 'transient' | 'configuration';
  readonly fault: () => Promise<Fault>;
}

/** What a server that is up may answer instead of a decision. */
const REFUSALS: readonly Refusal[] = [
  { code: 'BUSY', errorClass: 'transient', fault: busy },
  { code: 'LOADING', errorClass: 'transient', fault: loading },
  { code: 'OOM', errorClass: 'transient', fault: async () => setting('maxmemory', '1', '0') },
  { code: 'READONLY', errorClass: 'transient', fault: readOnly },
  { code: 'MISCONF', errorClass: 'transient', fault: failingSave },
  {
    code: 'NOREPLICAS',
    errorClass: 'transient',
    fault: async () => setting('min-replicas-to-write', '1', '0'),
  },
  { code: 'NOPERM', errorClass: 'configuration', fault: noPermission },
];

describe.each(REFUSALS)(
  'a server that answers $code under load',

  ({ code, errorClass, fault }) => {
    test('is down until it decides again', async () => {
      const run = await FaultRun.start({ url: server.url }, 'failClosed');
      try {
        const report = await run.suffer({
          ...(await fault()),
          expected: ({ status, nodes }) => status === 'down' && nodes[0]?.detail.includes(code) === true,
        });

        expectSound(report);
        expect(report.causes).toContain(code);
        expect(classesOf(report.degraded, code)).toEqual(new Set([errorClass]));
        await expectDistinct(run);
        await expectAccounted({ url: server.url }, run.answers);
      } finally {
        await run.close();
      }
    });

    test.each(CLIENT_FAMILIES.slice(1))('and so it is behind a client of $name', async ({ open }) => {
      const opened = await open(server, server.url);
      const run = await FaultRun.start({ client: opened.client }, 'passThrough');
      try {
        const report = await run.suffer(await fault());

        expectSound(report);
        expect(report.causes).toContain(code);
        expect(classesOf(report.degraded, code)).toEqual(new Set([errorClass]));
        await expectDistinct(run);
      } finally {
        await run.close();
        opened.close();
      }
    });
  },
);

test('a server that loads its data after a restart is down until it is done', async () => {
  await fill();
  await server.command('BGREWRITEAOF');
  await eventually('the file is rewritten', async () =>
    String(await server.command('INFO', 'persistence')).includes('aof_rewrite_in_progress:0'),
  );
  await server.command('CONFIG', 'SET', 'key-load-delay', LOAD_DELAY_US);
  await server.command('CONFIG', 'REWRITE');
  const run = await FaultRun.start({ url: server.url }, 'failClosed');
  let restart: Promise<void> | undefined;
  try {
    const report = await run.suffer({
      strike: async () => {
        await server.kill();
        restart = server.restart();
      },
      expected: ({ status, nodes }) => status === 'down' && /loading its data/.test(nodes[0]?.detail ?? ''),
      heal: async () => restart,
    });

    expectSound(report);
    expect(report.causes).toContain('loading its data');
    await expectDistinct(run);
    await expectAccounted({ url: server.url }, run.answers);
  } finally {
    await run.close();
  }
});

async function setting(name: string, bad: string, good: string): Promise<Fault> {
  return {
    strike: () => server.command('CONFIG', 'SET', name, bad),
    heal: () => server.command('CONFIG', 'SET', name, good),
  };
}

async function busy(): Promise<Fault> {
  await server.command('CONFIG', 'SET', 'busy-reply-threshold', '20');
  let script: Promise<unknown> | undefined;
  return {
    strike: async () => {
      script = server.command('EVAL', 'while true do end', '0').catch(() => undefined);
      await eventually('the script is noticed', async () => answersWith('BUSY', 'PING'));
    },
    heal: async () => {
      await server.command('SCRIPT', 'KILL');
      await script;
    },
  };
}

async function loading(): Promise<Fault> {
  await fill();
  await server.command('CONFIG', 'SET', 'key-load-delay', LOAD_DELAY_US);
  let reload: Promise<unknown> | undefined;
  return {
    strike: async () => {
      reload = server.command('DEBUG', 'RELOAD');
      await eventually('the server loads', async () => answersWith('LOADING', 'PING'));
    },
    heal: async () => reload,
  };
}

async function fill(): Promise<void> {
  await server.command('DEBUG', 'POPULATE', FILLER_KEYS, 'filler', 100);
}

async function readOnly(): Promise<Fault> {
  return {
    // Nobody answers there, so that it keeps what it has.
    strike: () => server.command('REPLICAOF', '127.0.0.1', '1'),
    heal: () => server.command('REPLICAOF', 'NO', 'ONE'),
  };
}

async function failingSave(): Promise<Fault> {
  const inTheWay = join(server.folder, 'dump.rdb');
  await server.command('CONFIG', 'SET', 'save', '3600 1');
  return {
    strike: async () => {
      mkdirSync(inTheWay);
      await server.command('BGSAVE');
      await eventually('saving fails', async () => answersWith('MISCONF', 'SET', 'filler', ''));
    },
    heal: async () => {
      rmdirSync(inTheWay);
      await server.command('BGSAVE');
      await eventually('saving works', async () => (await server.command('SET', 'filler', '')) === 'OK');
    },
  };
}

async function noPermission(): Promise<Fault> {
  return {
    strike: () => server.command('ACL', 'SETUSER', 'default', '-evalsha', '-eval'),
    heal: () => server.command('ACL', 'SETUSER', 'default', '+@all'),
  };
}

async function answersWith(code: string, ...command: readonly string[]): Promise<boolean> {
  try {
    await server.command(...command);
    return false;
  } catch (error) {
    return error instanceof ReplyError && error.message.startsWith(code);
  }
}

/** How the decisions that name this reason classify it. */
function classesOf(degraded: FaultRun['answers'], code: string): ReadonlySet<string> {
  const causes = degraded
    .map(({ decision }) => decision.cause)
    .filter((cause) => cause instanceof LimiterError);
  return new Set(causes.filter(({ message }) => message.includes(code)).map((cause) => cause.errorClass));
}
