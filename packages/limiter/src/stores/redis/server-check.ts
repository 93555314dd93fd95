import { ALGORITHMS } from '../../algorithms/index.ts';
import { LimiterError } from '../../errors.ts';
import { decideScriptOf, scriptCommand, type Command, type Script } from './script.ts';
import { toStoreError } from './failure-class.ts';

/** Scripts that read the time and then write are replicated by their effects from this version on. */
const OLDEST_MAJOR = 5;

/** One for each algorithm; those for calls that ask for several are sent when they are first needed. */
let usualScripts: readonly Script[] | undefined;

export interface ServerCheck {
  /** Why this server must not decide; undefined if it may. */
  readonly refusal: LimiterError | undefined;
  /** What works, but will break the promise one day. */
  readonly warning: string | undefined;
}

/** Sends one command to the server, a script also where it is not known yet. */
export type SendToServer = (command: Command) => Promise<unknown>;

/** Asks a server whether it can keep the promise. What it does not tell is taken from what was known before. */
export async function checkServer(
  name: string,
  send: SendToServer,
  before: ServerCheck | undefined,
): Promise<ServerCheck> {
  const [info, scriptRefusal] = await Promise.all([readInfo(send), refusalOfScripts(name, send)]);
  if (info === undefined) return { refusal: scriptRefusal, warning: before?.warning };
  return {
    refusal: refusalOfVersion(name, info.get('redis_version')) ?? scriptRefusal,
    warning: warningOf(name, info.get('maxmemory_policy')),
  };
}

/** Undefined without the permission, or when there is no connection after all: the decisions themselves will show. */
async function readInfo(send: SendToServer): Promise<ReadonlyMap<string, string> | undefined> {
  try {
    const sections = await Promise.all(
      ['server', 'memory'].map((section) => send({ key: '', name: 'INFO', args: [section] })),
    );
    const lines = sections.flatMap((section) => String(section).split('\r\n'));
    return new Map(lines.map((line) => splitOnce(line)));
  } catch {
    return undefined;
  }
}

function splitOnce(line: string): [string, string] {
  const at = line.indexOf(':');
  return [line.slice(0, Math.max(0, at)), line.slice(at + 1)];
}

function refusalOfVersion(name: string, version: string | undefined): LimiterError | undefined {
  const major = Number(version?.split('.')[0] ?? OLDEST_MAJOR);
  if (major >= OLDEST_MAJOR) return undefined;
  return new LimiterError(
    'STORE_MISCONFIGURED',
    `${name} runs Redis ${version}; the limiter needs ${OLDEST_MAJOR}.0 or newer: upgrade the server.`,
  );
}

/** Runs the scripts without a decision to make, which also leaves them with the server for the first ones. */
async function refusalOfScripts(name: string, send: SendToServer): Promise<LimiterError | undefined> {
  usualScripts ??= Object.values(ALGORITHMS).map((algorithm) => decideScriptOf([algorithm]));
  try {
    await Promise.all(usualScripts.map((script) => send(scriptCommand(script, [], ['']))));
    return undefined;
  } catch (error) {
    const failure = toStoreError(name, error);
    if (failure.code !== 'STORE_MISCONFIGURED') return undefined;
    // Without permission the server does not answer about scripts.
    if (!/NOPERM|unknown command/.test(failure.message)) return failure;
    return new LimiterError(
      failure.code,
      `${failure.message}; the limiter needs EVALSHA and EVAL: permit both to its user, and rename neither.`,
      { cause: error },
    );
  }
}

function warningOf(name: string, policy: string | undefined): string | undefined {
  if (policy === undefined || policy === 'noeviction') return undefined;
  return (
    `${name} has maxmemory-policy ${policy}: under memory pressure it drops live limits, and every dropped limit starts full. ` +
    'Run CONFIG SET maxmemory-policy noeviction on it, and set it in redis.conf.'
  );
}
