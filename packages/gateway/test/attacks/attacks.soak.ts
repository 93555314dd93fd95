// Whether a second client is served while somebody attacks, and afterwards; nginx under the same attack beside it. It
// measures the machine, too: run it where nothing else runs. SPILLGATE_ATTACK_MS: how long each attack lasts, 3 s if it
// is not set. SPILLGATE_ATTACK: only those whose name contains it.
import { once } from 'node:events';
import { request as ask, type IncomingMessage } from 'node:http';
import { request as askSecure } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startRedis, type RedisServer } from '../../../../test/redis/servers.ts';
import { startAttack } from './attacker-process.ts';
import { ATTACKS } from './attacks.ts';
import {
  nginxIsInstalled,
  SETTINGS,
  startNginx,
  startSpillgate,
  Surroundings,
  type Setting,
  type Target,
} from './attack-targets.ts';

const LASTS_MS = Number(process.env['SPILLGATE_ATTACK_MS'] ?? 3000);
const ONLY = process.env['SPILLGATE_ATTACK'] ?? '';
/** The attack is under way by then. */
const BEGINS_MS = 300;
const AFTERWARDS_MS = 1000;
/** Whoever waits longer than this was not served. */
const SERVED_MS = 1000;
const GIVES_UP_MS = 5000;
/** Not the address of the attacker, which may be slowed down. */
const ADDRESS = '127.0.0.2';

interface Measured {
  readonly during: readonly number[];
  readonly after: readonly number[];
  readonly cutOff: number;
}

const rows: string[] = [
  '| attack | setting | spillgate p50, max, not served | afterwards | nginx p50, max, not served | afterwards |',
  '|---|---|---|---|---|---|',
];
let around: Surroundings;
let redis: RedisServer;

beforeAll(async () => {
  if (!nginxIsInstalled()) throw new Error('nginx is not installed: sh scripts/prepare-system.sh');
  [around, redis] = await Promise.all([Surroundings.start(), startRedis()]);
});

afterAll(async () => {
  process.stdout.write(`\n${rows.join('\n')}\n`);
  await Promise.all([around.stop(), redis.stop()]);
});

describe.each(SETTINGS)('$name', (setting) => {
  test.each(Object.keys(ATTACKS).filter((name) => name.includes(ONLY)))(
    '%s: a second client is served at least as reliably as by nginx',
    async (name) => {
      const ours = await measure(name, await startSpillgate(around, setting, redis.port));
      const theirs = await measure(name, await startNginx(around, setting));
      rows.push(row(name, setting, ours, theirs));

      expect(unserved(ours.during)).toBeLessThanOrEqual(unserved(theirs.during));
      expect(unserved(ours.after)).toBeLessThanOrEqual(unserved(theirs.after));
    },
    4 * (LASTS_MS + 20_000),
  );
});

/** Where the second client asks. */
interface AskedPort {
  readonly port: number;
  readonly secure: boolean;
  readonly path: string;
}

async function measure(name: string, target: Target): Promise<Measured> {
  const attack = ATTACKS[name];
  if (attack === undefined) throw new Error(`no such attack: ${name}`);
  try {
    const isAdmin = attack.door === 'admin';
    const asked: AskedPort = isAdmin
      ? { port: target.adminPort, secure: false, path: '/healthz' }
      : { port: target.port, secure: target.secure, path: '/' };
    // Code that has not run yet is slow.
    await latencies(asked, 500);
    const port = attack.protocol === 'h2' ? target.http2Port : asked.port;
    const running = await startAttack(attack, { port, secure: asked.secure });
    await sleep(BEGINS_MS);
    const during = await latencies(asked, LASTS_MS);
    const { cutOff } = await running.stop();
    return { during, after: await latencies(asked, AFTERWARDS_MS), cutOff };
  } finally {
    await target.stop();
  }
}

/**
 * How long each request took, one after the other on connections of their own; Infinity for those that got no answer.
 */
async function latencies(asked: AskedPort, forMs: number): Promise<readonly number[]> {
  const until = performance.now() + forMs;
  const all: number[] = [];
  while (performance.now() < until) {
    const startedAt = performance.now();
    const served = await isServed(asked);
    all.push(served ? performance.now() - startedAt : Infinity);
  }
  return all;
}

async function isServed({ port, secure, path }: AskedPort): Promise<boolean> {
  const signal = AbortSignal.timeout(GIVES_UP_MS);
  const options = {
    port,
    host: '127.0.0.1',
    path,
    agent: false,
    localAddress: ADDRESS,
    signal,
  } as const;
  const asking = secure ? askSecure({ ...options, rejectUnauthorized: false }) : ask(options);
  try {
    const [response] = (await once(asking.end(), 'response')) as [IncomingMessage];
    response.resume();
    await once(response, 'end');
    return response.statusCode === 200;
  } catch {
    return false;
  }
}

const unserved = (values: readonly number[]): number =>
  values.filter((ms) => ms > SERVED_MS).length / values.length;

function row(name: string, setting: Setting, ours: Measured, theirs: Measured): string {
  const cells = [ours, theirs].flatMap(({ during, after }) => [
    shown(during),
    `${quantile(after, 0.5).toFixed(1)} ms`,
  ]);
  return `| ${[name, setting.name, ...cells].join(' | ')} |`;
}

function shown(values: readonly number[]): string {
  const share = Math.round(100 * unserved(values));
  return `${quantile(values, 0.5).toFixed(1)} ms, ${quantile(values, 1).toFixed(0)} ms, ${share} %`;
}

function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? NaN;
}
