import { ALGORITHMS } from '#limiter/algorithms/index.js';
import type { Redis } from 'ioredis';

export interface StoredValue {
  /** Null when there is no such key. */
  readonly bytes: Buffer | null;
  /** Unix time in milliseconds; -1 without an expiry, -2 without a key. */
  readonly expiresAtMs: number;
}

export interface Snapshot {
  /** In the order of the keys. */
  readonly values: readonly StoredValue[];
  /** The server's clock. */
  readonly timeUs: number;
}

/** What is under these keys, all read at one moment. */
export async function takeSnapshot(raw: Redis, keys: readonly string[]): Promise<Snapshot> {
  const transaction = raw.multi();
  for (const key of keys) transaction.getBuffer(key).pexpiretime(key);
  const replies = await transaction.time().exec();
  if (replies === null) throw new Error('The transaction was not executed');
  const results = replies.map(([error, result]) => {
    if (error !== null) throw error;
    return result;
  });
  return {
    values: keys.map((_, at) => ({
      bytes: toBytes(results[at * 2]),
      expiresAtMs: Number(results[at * 2 + 1]),
    })),
    timeUs: toTimeUs(results.at(-1)),
  };
}

/** Every key that has no expiry. */
export async function keysWithoutExpiry(raw: Redis): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const page of raw.scanStream({ count: 1000 })) {
    const keys = toKeys(page);
    const times = await Promise.all(keys.map(async (key) => raw.pttl(key)));
    found.push(...keys.filter((_, at) => times[at] === -1));
  }
  return found;
}

function toKeys(page: unknown): readonly string[] {
  if (!Array.isArray(page)) throw new TypeError('SCAN answers lists of keys');
  return page.map(String);
}

function toBytes(reply: unknown): Buffer | null {
  if (reply === null || Buffer.isBuffer(reply)) return reply;
  throw new TypeError('GET answers bytes or nothing');
}

function toTimeUs(reply: unknown): number {
  if (!Array.isArray(reply)) throw new TypeError('TIME answers seconds and microseconds');
  return Number(reply[0]) * 1_000_000 + Number(reply[1]);
}

/** Only a quota for life is kept without an expiry. */
export function isForLife(key: string): boolean {
  return key.includes(`/${ALGORITHMS.calendarQuota.redis.number}/ever/`);
}
