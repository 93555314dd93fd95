// One episode: a fleet under traffic, a plan of faults, and what it shows afterwards.
import { setTimeout as sleep } from 'node:timers/promises';
import type { FailurePolicy } from 'spillgate';
import type { Proxy } from '../redis/faults/proxy.ts';
import { PATIENCE_MS } from '../patience.ts';
import { eventually } from '../redis/servers.ts';
import type { CompiledBucket } from '../../packages/limiter/src/algorithms/bucket/bucket.ts';
import { mostAboveRate, mostInWindow, replayDifferences, type Admission } from './admissions.ts';
import { INSTANCES, nowUs, type EpisodeRecord, type TortureFleet } from './fleet.ts';
import { CALM_MS, describeFault, type FaultKind, type Plan, type PlannedFault } from './plan.ts';
import { exactPlan, JUDGED, LEASED, type JudgedPolicy } from './policies.ts';
import type { TortureSetup } from './setups.ts';

/** How long a fleet may take to decide again after the last fault. A busy machine takes its time. */
const RECOVERY_MS = PATIENCE_MS;
const SECOND_US = 1_000_000;
/** A decision of Redis just before a worker is killed is not in its journal. */
const MARGIN_US = 100_000;
/** A master that was cut off or replaced may decide until the store has asked who the master is. */
const CUT_OFF_SECONDS = 3;
/** Where another server takes over from one that fails: after each of these it may lack what the other had charged. */
const LOSING: readonly FaultKind[] = ['Redis killed', 'Redis stopped', 'failover'];

/** What may be admitted above a policy: so many bursts, and the rate for so many seconds. */
interface Allowance {
  readonly bursts: number;
  readonly seconds: number;
}

export interface PolicyResult {
  readonly policy: string;
  /** Above the policy itself. */
  readonly promised: number;
  readonly measured: number;
}

export interface EpisodeResult {
  readonly plan: Plan;
  readonly failurePolicy: FailurePolicy;
  readonly checks: number;
  readonly policies: readonly PolicyResult[];
  readonly recoveryMs: number;
  readonly replayed: number;
  /** What is not as promised; none if all is well. */
  readonly violations: readonly string[];
}

export async function runEpisode(
  fleet: TortureFleet,
  setup: TortureSetup,
  planned: Plan,
  failurePolicy: FailurePolicy,
): Promise<EpisodeResult> {
  const failovers = await setup.failovers?.();
  await fleet.begin();
  const start = { us: nowUs(), wallUs: Date.now() * 1000 };
  await Promise.all(planned.faults.map(async (fault) => strike(fault, fleet, setup)));
  await heal(setup);
  await sleep(CALM_MS);
  await setup.settle();
  const recoveryMs = await recovery(fleet);
  const record = await fleet.end();
  // A replica is promoted some time before the sentinels count it.
  await setup.settle();
  const plan = failovers === (await setup.failovers?.()) ? planned : withFailover(planned);
  const policies = JUDGED.map((policy) => judge(policy, record, { plan, setup, failurePolicy, fleet }));
  const calm = calmDecisions(record, start, plan);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- those of a token bucket
  const differences = replayDifferences(calm, exactPlan.numbers as CompiledBucket);
  const violations = [
    ...policies
      .filter(({ promised, measured }) => measured > promised)
      .map(
        ({ policy, promised, measured }) =>
          `${policy}: ${round(measured)} above the policy, ${round(promised)} promised`,
      ),
    ...(recoveryMs > RECOVERY_MS ? [`no decision ${RECOVERY_MS} ms after the last fault`] : []),
    ...(differences > 0 ? [`${differences} of ${calm.length} decisions differ in the replay`] : []),
    // Every episode begins with a calm.
    ...(record.decisions.length === 0 ? ['no worker noted what Redis decided: nothing can be replayed'] : []),
    ...accounts(record, plan, setup),
  ];
  return {
    plan,
    failurePolicy,
    checks: record.checks,
    policies,
    recoveryMs,
    replayed: calm.length,
    violations,
  };
}

/** Sentinels that a busy machine has let wait replace a master that is well. */
function withFailover(plan: Plan): Plan {
  if (plan.faults.some(({ kind }) => LOSING.includes(kind))) return plan;
  const unplanned = { kind: 'failover', atMs: 0, forMs: 0, target: 0, byMs: 0 } as const;
  return { ...plan, faults: [unplanned, ...plan.faults] };
}

/** Faults that met on one server may have left it in any state. */
async function heal({ servers }: TortureSetup): Promise<void> {
  for (const server of servers) {
    if (server.pid === undefined) await server.restart();
    else if (!server.isResponsive) server.resume();
    server.setClock(0);
    // Sentinels that give a server another role close its connections, ours too.
    await eventually(`${server.url} takes commands`, async () => {
      return (await server.command('CONFIG', 'SET', 'maxmemory', '0')) === 'OK';
    });
  }
}

/** Longer than `RECOVERY_MS` if somebody still decides without Redis. */
async function recovery(fleet: TortureFleet): Promise<number> {
  const fromMs = performance.now();
  const withinMs = RECOVERY_MS + 1;
  await Promise.all(fleet.workers.map(async (worker) => worker.tell({ type: 'recover', withinMs })));
  return performance.now() - fromMs;
}

/** What was decided before the first fault; nothing if the machine was so busy that somebody waited in vain. */
function calmDecisions(
  record: EpisodeRecord,
  start: { readonly us: number; readonly wallUs: number },
  plan: Plan,
) {
  const calmUs = (plan.faults[0]?.atMs ?? CALM_MS) * 1000 - MARGIN_US;
  if (record.firstWithoutStoreUs < start.us + calmUs) return [];
  return record.decisions.filter(({ atUs, askedUs }) => {
    // Nothing is decided before it is asked for, unless the clock of Redis was set back: then the calm is over.
    const askedAtUs = start.wallUs + askedUs - start.us;
    return atUs < start.wallUs + calmUs && atUs > askedAtUs - SECOND_US;
  });
}

function judge(
  policy: JudgedPolicy,
  record: EpisodeRecord,
  episode: {
    readonly plan: Plan;
    readonly setup: TortureSetup;
    readonly failurePolicy: FailurePolicy;
    readonly fleet: TortureFleet;
  },
): PolicyResult {
  const { plan, setup, failurePolicy, fleet } = episode;
  const { name, burst, ratePerUs } = policy;
  let promised = 0;
  for (const fault of plan.faults) {
    const { bursts, seconds } = allowanceOf(fault, setup);
    promised += bursts * burst + seconds * SECOND_US * ratePerUs;
    // What a lease holds was granted by a server that is not asked any more.
    if (name === LEASED.name && seconds > 0) promised += burst;
  }
  if (failurePolicy === 'inMemoryFallback' && record.withoutStoreUs > 0) {
    const processes = INSTANCES + fleet.replaced;
    const share = Math.max(1, Math.floor(burst / INSTANCES));
    promised += processes * share + (ratePerUs * record.withoutStoreUs * processes) / INSTANCES;
  }
  const measured = Math.max(0, mostAdmitted(policy, record.admissions.get(name) ?? []) - burst);
  return { policy: name, promised, measured };
}

function mostAdmitted({ ratePerUs, windowUs }: JudgedPolicy, admissions: readonly Admission[]): number {
  return windowUs === undefined ? mostAboveRate(admissions, ratePerUs) : mostInWindow(admissions, windowUs);
}

/** As docs/redis-deployment.md says what each failure costs. */
function allowanceOf({ kind, forMs }: PlannedFault, { isReplicated }: TortureSetup): Allowance {
  if (kind === 'Redis killed')
    return { bursts: isReplicated ? 2 : 1, seconds: isReplicated ? CUT_OFF_SECONDS : 0 };
  if (kind === 'Redis stopped' && isReplicated) return { bursts: 2, seconds: forMs / 1000 + CUT_OFF_SECONDS };
  if (kind === 'failover') return { bursts: 1, seconds: CUT_OFF_SECONDS };
  // On its way there or back the clock goes forward.
  if (kind === 'Redis clock set') return { bursts: 1, seconds: 0 };
  return { bursts: 0, seconds: 0 };
}

/** What Redis has charged is what was admitted, and perhaps what nobody heard of; never more than was asked. */
function accounts(
  { budget }: EpisodeRecord,
  { faults }: Plan,
  { isReplicated }: TortureSetup,
): readonly string[] {
  const losing: readonly FaultKind[] = isReplicated ? LOSING : ['Redis killed'];
  if (faults.some(({ kind }) => losing.includes(kind))) return [];
  const { asked, admitted, charged } = budget;
  const steps = faults.filter(({ kind }) => kind === 'Redis clock set').length;
  return [
    ...(charged > asked ? [`${charged} charged, ${asked} asked for: something was charged twice`] : []),
    // An hour forward refills one of the budget.
    ...(charged < admitted - steps ? [`${charged} charged, ${admitted} admitted: something was free`] : []),
  ];
}

async function strike(fault: PlannedFault, fleet: TortureFleet, setup: TortureSetup): Promise<void> {
  await sleep(fault.atMs);
  try {
    await STRIKES[fault.kind](fault, fleet, setup);
  } catch (error) {
    // Another fault may be in the way: a server cannot be stopped while it is down.
    if (process.env['SPILLGATE_VERBOSE'] !== undefined)
      process.stdout.write(`${describeFault(fault)} did not happen: ${String(error)}\n`);
  }
}

type Strike = (fault: PlannedFault, fleet: TortureFleet, setup: TortureSetup) => Promise<unknown>;

const STRIKES: Readonly<Record<FaultKind, Strike>> = {
  'worker killed': async ({ target }, fleet) => fleet.replace(target),
  'worker stopped': async ({ target, forMs }, { workers }) => {
    const worker = workers[target % workers.length];
    worker?.signal('SIGSTOP');
    await sleep(forMs);
    worker?.signal('SIGCONT');
  },
  'worker clock set': async ({ target, forMs, byMs }, { workers }) => {
    const worker = workers[target % workers.length];
    await worker?.tell({ type: 'clock', byMs });
    await sleep(forMs);
    await worker?.tell({ type: 'clock', byMs: 0 });
  },
  'Redis killed': async ({ target, forMs }, _fleet, { servers }) => {
    const server = servers[target % servers.length];
    await server?.kill();
    await sleep(forMs);
    await server?.restart();
  },
  'Redis stopped': async ({ target, forMs }, _fleet, { servers }) => {
    const server = servers[target % servers.length];
    await server?.pause();
    await sleep(forMs);
    if (server?.isResponsive === false && server.pid !== undefined) server.resume();
  },
  'Redis memory full': async ({ target, forMs }, _fleet, { servers }) => {
    const server = servers[target % servers.length];
    await server?.command('CONFIG', 'SET', 'maxmemory', '1');
    await sleep(forMs);
    await server?.command('CONFIG', 'SET', 'maxmemory', '0');
  },
  'Redis clock set': async ({ target, forMs, byMs }, _fleet, { servers }) => {
    const server = servers[target % servers.length];
    server?.setClock(byMs);
    await sleep(forMs);
    server?.setClock(0);
  },
  'network cut': async ({ target, forMs }, _fleet, { proxies }) => {
    const cut = networkOf(target, proxies);
    for (const proxy of cut) proxy.judge(() => 'lost');
    for (const proxy of cut) proxy.reset();
    await sleep(forMs);
    for (const proxy of cut) proxy.judge(() => 'delivered');
  },
  // Everything arrives, and every connection breaks before the answer comes back.
  'answers lost': async ({ target, forMs }, _fleet, { proxies }) => {
    const broken = networkOf(target, proxies);
    for (const proxy of broken) proxy.judge(() => 'unanswered');
    await sleep(forMs);
    for (const proxy of broken) proxy.judge(() => 'delivered');
  },
  'network slow': async ({ target, forMs, byMs }, _fleet, { proxies }) => {
    const slow = networkOf(target, proxies);
    for (const proxy of slow) proxy.delay(byMs);
    await sleep(forMs);
    for (const proxy of slow) proxy.delay(0);
  },
  // It may come to nothing, as in life: another fault is in the way of the replica.
  failover: async (_fault, _fleet, { failover }) => failover?.(),
  'slot moved': async ({ target }, _fleet, { moveSlot }) => moveSlot?.(target),
};

/** That of one process, or of all. */
function networkOf(target: number, proxies: TortureSetup['proxies']): readonly Proxy[] {
  return proxies[target % (proxies.length + 1)] ?? proxies.flat();
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
