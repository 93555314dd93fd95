import { LimiterError } from '../../errors.ts';
import type { SendCommand } from './client.ts';

/** Scripts that read the time and then write are replicated by their effects from this version on. */
const OLDEST_MAJOR = 5;

export interface ServerCheck {
  /** Why this server must not decide; undefined if it may. */
  readonly refusal: LimiterError | undefined;
  /** What works, but will break the promise one day. */
  readonly warning: string | undefined;
}

/** Asks a server once whether it can keep the promise. A server that does not tell gets the benefit of the doubt. */
export async function checkServer(name: string, send: SendCommand): Promise<ServerCheck> {
  const info = await readInfo(send);
  return {
    refusal: refusalOf(name, info.get('redis_version')),
    warning: warningOf(name, info.get('maxmemory_policy')),
  };
}

async function readInfo(send: SendCommand): Promise<ReadonlyMap<string, string>> {
  try {
    const sections = await Promise.all([send('INFO', ['server']), send('INFO', ['memory'])]);
    const lines = sections.flatMap((section) => String(section).split('\r\n'));
    return new Map(lines.map((line) => splitOnce(line)));
  } catch {
    // No permission, or no connection after all: the decisions themselves will show.
    return new Map();
  }
}

function splitOnce(line: string): [string, string] {
  const at = line.indexOf(':');
  return [line.slice(0, Math.max(0, at)), line.slice(at + 1)];
}

function refusalOf(name: string, version: string | undefined): LimiterError | undefined {
  const major = Number(version?.split('.')[0] ?? OLDEST_MAJOR);
  if (major >= OLDEST_MAJOR) return undefined;
  return new LimiterError(
    'STORE_MISCONFIGURED',
    `${name} runs Redis ${version}; the limiter needs ${OLDEST_MAJOR}.0 or newer: upgrade the server.`,
  );
}

function warningOf(name: string, policy: string | undefined): string | undefined {
  if (policy === undefined || policy === 'noeviction') return undefined;
  return (
    `${name} has maxmemory-policy ${policy}: under memory pressure it drops live limits, and every dropped limit starts full. ` +
    'Run CONFIG SET maxmemory-policy noeviction on it, and set it in redis.conf.'
  );
}
