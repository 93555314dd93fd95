import { fixedWindow, LimiterError } from 'spillgate';
import { redisStore, type RedisStore } from 'spillgate/redis';
import { openRedisCommands, type RedisCommands } from 'spillgate/internal';
import { inSettings } from '../../config/problem.ts';
import { redisOptions } from '../../external/redis-client.ts';
import { bad, good, warning, type DoctorFinding, type Examined } from './finding.ts';

/** Whether Redis decides, how fast, and whether it is set up to keep what it decided. */
export async function examineRedis(examined: Examined): Promise<readonly DoctorFinding[]> {
  const { redis } = examined.config;
  if (redis === undefined) return [examineMemory(examined)];
  const options = redisOptions({ section: 'redis', config: redis });
  const store = redisStore(options);
  try {
    await store.ready();
    const decided = await examineDecisions(store, examined);
    const commands = openRedisCommands(options);
    try {
      return [...decided, ...(await examineServer(commands, examined)), ...(await examineNodes(store))];
    } finally {
      await commands.close();
    }
  } catch (failure) {
    if (!(failure instanceof LimiterError)) throw failure;
    return [bad('redis', inSettings(failure.message).replace(/\.$/, ''), remedyOf(failure))];
  } finally {
    await store.close();
  }
}

function remedyOf({ code, message, node }: LimiterError): string {
  if (code === 'STORE_MISCONFIGURED') return 'Correct the redis section, or the settings of the server.';
  return message.includes('did not answer within')
    ? 'Use a nearer or less busy Redis, or raise redis.read_timeout.'
    : `Check that the server runs and that the redis section names it; then try: ${pingOf(node)}.`;
}

function pingOf(node = 'HOST:PORT'): string {
  const colon = node.lastIndexOf(':');
  return `redis-cli -h ${node.slice(0, colon)} -p ${node.slice(colon + 1)} ping`;
}

function examineMemory({ config }: Examined): DoctorFinding {
  if (config.server.workers > 1) {
    return bad('store', 'limits are in memory, with several workers', 'Set redis, or server.workers: 1.');
  }
  return good(
    'store',
    `limits are in memory, for at most ${config.rate_limit.max_keys} keys, and end with the process`,
  );
}

const DECISIONS = 200;
const PROBE = fixedWindow({ name: 'spillgate-doctor', quota: 2 ** 40, window: '1s' }).for('doctor');

/** Real decisions, one after the other: what a single request waits for. */
async function examineDecisions(store: RedisStore, { config }: Examined): Promise<readonly DoctorFinding[]> {
  const tookMs: number[] = [];
  for (let made = 0; made < DECISIONS; made += 1) {
    const askedMs = performance.now();
    await store.check([PROBE], 1);
    tookMs.push(performance.now() - askedMs);
  }
  tookMs.sort((a, b) => a - b);
  const at = (share: number): number => tookMs[Math.floor(share * (DECISIONS - 1))] ?? 0;
  const deadlineMs = config.rate_limit.deadline;
  const figures = `p50 ${ms(at(0.5))}, p95 ${ms(at(0.95))}, p99 ${ms(at(0.99))} of ${DECISIONS} decisions; the deadline is ${ms(deadlineMs)}`;
  if (at(0.5) > deadlineMs) {
    return [
      bad(
        'redis latency',
        figures,
        'Most requests get the failure policy: use a nearer Redis, or raise rate_limit.deadline.',
      ),
    ];
  }
  if (at(0.95) > deadlineMs / 2) {
    return [
      warning('redis latency', figures, 'Use a nearer or less busy Redis, or raise rate_limit.deadline.'),
    ];
  }
  return [good('redis latency', figures)];
}

function ms(value: number): string {
  return `${value < 10 ? value.toFixed(2) : Math.round(value)} ms`;
}

/** Every server and sentinel that the store knows. */
async function examineNodes(store: RedisStore): Promise<readonly DoctorFinding[]> {
  const { nodes } = await store.health();
  return nodes.map(({ name, status, detail }) =>
    status === 'up'
      ? good(`redis ${name}`, 'is up')
      : bad(`redis ${name}`, detail.replace(/\.$/, ''), 'Start it, or remove it from redis.endpoints.'),
  );
}

/** What one server says about itself: the one, the master, or one of a cluster. */
async function examineServer(commands: RedisCommands, examined: Examined): Promise<readonly DoctorFinding[]> {
  const startedMs = performance.now();
  const [seconds, micros] = listOf(await ask(commands, 'TIME'));
  // The wall clock: it is what is compared. Redis read its own about halfway.
  const halfwayMs = examined.now().getTime() - (performance.now() - startedMs) / 2;
  const info = readInfo(String(await ask(commands, 'INFO')));
  if (info.size === 0) {
    return [
      warning(
        'redis server',
        'does not say how it is set up: its user may not run INFO',
        'Permit INFO to the user, or look at maxmemory-policy and persistence yourself.',
      ),
    ];
  }
  const asideMs = seconds === undefined ? 0 : Number(seconds) * 1000 + Number(micros) / 1000 - halfwayMs;
  return [
    good('redis server', `version ${info.get('redis_version') ?? 'unknown'}`),
    examineClock(asideMs),
    examineEviction(info),
    examinePersistence(info),
    ...examineReplicas(info),
    examineHeadroom(info, examined),
  ];
}

async function ask(commands: RedisCommands, name: string): Promise<unknown> {
  try {
    return await commands.run('', name, []);
  } catch {
    return '';
  }
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function readInfo(text: string): ReadonlyMap<string, string> {
  const lines = text.split('\r\n').filter((line) => line.includes(':'));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]));
}

const LARGE_DIFFERENCE_MS = 2000;

/** Only the clock of Redis decides, so a difference costs no admission; people who compare logs are misled by it. */
function examineClock(asideMs: number): DoctorFinding {
  const found = `its clock is ${ms(Math.abs(asideMs))} ${asideMs < 0 ? 'behind' : 'ahead of'} this machine's`;
  return Math.abs(asideMs) < LARGE_DIFFERENCE_MS
    ? good('redis clock', found)
    : warning(
        'redis clock',
        found,
        'Let both follow NTP: after a failover to a server with another clock, limits wait or refill by the difference.',
      );
}

function examineEviction(info: ReadonlyMap<string, string>): DoctorFinding {
  const policy = info.get('maxmemory_policy') ?? 'unknown';
  if (policy === 'noeviction') return good('redis eviction', 'maxmemory-policy is noeviction');
  return bad(
    'redis eviction',
    `maxmemory-policy is ${policy}: a full server drops live limits, and each of them starts full`,
    'Run CONFIG SET maxmemory-policy noeviction, and set it in redis.conf.',
  );
}

function examinePersistence(info: ReadonlyMap<string, string>): DoctorFinding {
  if (info.get('rdb_last_bgsave_status') === 'err') {
    return bad(
      'redis persistence',
      'the last snapshot failed, and by default Redis then refuses to write',
      'Look into its log; often the disk is full or the folder is not writable.',
    );
  }
  if (info.get('aof_enabled') === '1') return good('redis persistence', 'appendonly is on');
  const replicas = Number(info.get('connected_slaves') ?? 0);
  if (replicas > 0) return good('redis persistence', 'appendonly is off; replicas have a copy');
  return warning(
    'redis persistence',
    'appendonly is off and there is no replica: a crash forgets what was spent since the last snapshot',
    'Run CONFIG SET appendonly yes, and set it in redis.conf, unless full limits after a crash are fine.',
  );
}

const LARGE_LAG_SECONDS = 10;

function examineReplicas(info: ReadonlyMap<string, string>): readonly DoctorFinding[] {
  if (info.get('role') === 'slave') {
    return [
      bad(
        'redis role',
        'the server is a replica, which cannot decide',
        'Name the primary in redis.endpoints, or use sentinels.',
      ),
    ];
  }
  const replicas = [...info].filter(([name]) => /^slave\d+$/.test(name)).map(([, value]) => replicaIn(value));
  const behind = replicas.filter(({ online, lagSeconds }) => !online || lagSeconds > LARGE_LAG_SECONDS);
  if (behind.length > 0) {
    const each = behind.map(({ name, online, lagSeconds }) =>
      online ? `${name} was last heard of ${lagSeconds} s ago` : `${name} is not online`,
    );
    return [
      warning(
        'redis replicas',
        `${each.join(', ')}: a failover forgets what was spent meanwhile`,
        'Check the network between the servers, and repl-backlog-size.',
      ),
    ];
  }
  const largest = Math.max(...replicas.map(({ lagSeconds }) => lagSeconds));
  return replicas.length === 0
    ? []
    : [good('redis replicas', `${replicas.length} online, last heard of ${largest} s ago`)];
}

interface ListedReplica {
  readonly name: string;
  readonly online: boolean;
  readonly lagSeconds: number;
}

/** Of `ip=127.0.0.1,port=6380,state=online,offset=42,lag=0`. */
function replicaIn(text: string): ListedReplica {
  const fields = new Map(text.split(',').map((field) => [field.split('=')[0], field.split('=')[1]]));
  return {
    name: `${fields.get('ip')}:${fields.get('port')}`,
    online: fields.get('state') === 'online',
    lagSeconds: Number(fields.get('lag') ?? 0),
  };
}

/** What a state takes in Redis, key and overhead included; see docs/redis-deployment.md. */
const BYTES_PER_KEY = 200;

function examineHeadroom(
  info: ReadonlyMap<string, string>,
  { config, expectedKeys }: Examined,
): DoctorFinding {
  const used = Number(info.get('used_memory') ?? 0);
  const limit = Number(info.get('maxmemory') ?? 0) || Number(info.get('total_system_memory') ?? 0);
  const policies = Math.max(1, Object.keys(config.rate_limit.policies).length);
  const needed = expectedKeys * policies * BYTES_PER_KEY;
  const found = `${mebibytes(limit - used)} are free; ${expectedKeys} keys in ${policies} ${policies === 1 ? 'policy' : 'policies'} need about ${mebibytes(needed)}`;
  return limit - used >= needed
    ? good('redis memory', found)
    : bad(
        'redis memory',
        found,
        'Raise maxmemory, or say with --keys how many keys there are: a full Redis refuses to decide.',
      );
}

function mebibytes(bytes: number): string {
  return `${Math.round(bytes / 2 ** 20)} MiB`;
}
