import { type ChildProcess, spawn } from 'node:child_process';
import type fs from 'node:fs';
import type net from 'node:net';
import { fileURLToPath } from 'node:url';
import {
  fixedWindow,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type createLimiter,
  type Limit,
  type Limiter,
  type Policy,
  type TokenBucketNumbers,
} from 'spillgate';
import type { redisStore, RedisStoreOptions } from 'spillgate/redis';
import type { LeaseHolder } from '#limiter/stores/local/lease-holder.js';
import type { LeaseTable } from '#limiter/stores/local/lease-table.js';
import type { ScriptBatches } from '#limiter/stores/redis/script-batches.js';

/** What a process can do wrong with leases. Each of them must show in the replay of what was admitted. */
export type LeaseMistake =
  | 'slots of the past are spent'
  | 'a time that may be early'
  | 'a return in full'
  | 'a grant above the burst'
  | 'a lease is kept across a change of numbers';

/** The policies that a process can lease from. */
export const LEASED = { tokenBucket, fixedWindow, slidingWindowCounter, slidingWindowLog };

/** One of them, with its numbers. */
export type LeasedNumbers =
  | (TokenBucketNumbers & { readonly kind?: 'tokenBucket' })
  | {
      readonly kind: Exclude<keyof typeof LEASED, 'tokenBucket'>;
      readonly quota: number;
      readonly window: string;
    };

export function leasedPolicy(
  policies: typeof LEASED,
  name: string,
  numbers: LeasedNumbers,
): Policy<Partial<TokenBucketNumbers>> | Policy {
  const common = { name, leases: true };
  if (!('quota' in numbers)) {
    const { average, burst, period } = numbers;
    return policies.tokenBucket({ ...common, average, burst, period });
  }
  const { kind, quota, window } = numbers;
  return policies[kind]({ ...common, quota, window });
}

/** What the process has to open before it has traffic. */
export interface Opening {
  readonly store: RedisStoreOptions;
  readonly numbers: LeasedNumbers;
  readonly mistake?: LeaseMistake | undefined;
  /** Where every admission is noted. */
  readonly journal: string;
  /** Another one is another key. */
  readonly run: number;
}

type ToLeaseProcess =
  | { readonly type: 'open'; readonly opening: Opening }
  /** Closes the limiter, which gives its leases back, and opens another. */
  | { readonly type: 'reopen' }
  | { readonly type: 'override'; readonly numbers: TokenBucketNumbers }
  /** Light traffic with a flood now and then, until it is switched off. */
  | { readonly type: 'traffic'; readonly on: boolean }
  /** So many checks at once. */
  | { readonly type: 'burst'; readonly count: number; readonly cost: number };

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/** An application of its own that checks one busy key, and notes every admission with the time of Redis. */
export class LeaseProcess {
  private readonly child: ChildProcess;
  private readonly onTick: () => void;
  private readonly done: ((failure?: Error) => void)[] = [];

  /**
   * The clock of any Redis server is that of every other one on this machine; nobody disturbs the one at `clockPort`.
   */
  constructor(clockPort: number, onTick: () => void) {
    this.onTick = onTick;
    const program = [
      "import fs from 'node:fs';",
      "import net from 'node:net';",
      "import { createLimiter, fixedWindow, slidingWindowCounter, slidingWindowLog, tokenBucket } from 'spillgate';",
      "import { redisStore } from 'spillgate/redis';",
      "import { LeaseHolder } from '#limiter/stores/local/lease-holder.js';",
      "import { LeaseTable } from '#limiter/stores/local/lease-table.js';",
      "import { ScriptBatches } from '#limiter/stores/redis/script-batches.js';",
      followClock.toString(),
      keepJournal.toString(),
      mistakes.toString(),
      leasedPolicy.toString(),
      serveLeases.toString(),
      'const LEASED = { tokenBucket, fixedWindow, slidingWindowCounter, slidingWindowLog };',
      'const parts = { fs, net, createLimiter, LEASED, redisStore, LeaseHolder, LeaseTable, ScriptBatches };',
      `serveLeases(parts, ${clockPort}, { followClock, keepJournal, mistakes, leasedPolicy });`,
    ].join('\n');
    this.child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
      cwd: ROOT,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.child.on('message', (message) => {
      if (message === 'tick') this.onTick();
      else this.done.shift()?.();
    });
    this.child.once('exit', () => {
      for (const end of this.done.splice(0)) end(new Error('the process has ended'));
    });
  }

  async open(opening: Opening): Promise<void> {
    await this.tell({ type: 'open', opening });
  }

  /** Resolves when the process has done it. */
  async tell(message: ToLeaseProcess): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.done.push((failure) => (failure === undefined ? resolve() : reject(failure)));
      this.child.send(message);
    });
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.child.kill(signal);
  }

  /** Ends it without warning, also while it is stopped. */
  async kill(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    await ended;
  }
}

/* oxlint-disable typescript/unbound-method -- methods of prototypes are replaced, and called with the object they were called on */
// What follows runs in the other process, to which only its source text goes: it may use its arguments and nothing
// else.

interface Parts {
  readonly fs: typeof fs;
  readonly net: typeof net;
  readonly createLimiter: typeof createLimiter;
  readonly LEASED: typeof LEASED;
  readonly redisStore: typeof redisStore;
  readonly LeaseHolder: typeof LeaseHolder;
  readonly LeaseTable: typeof LeaseTable;
  readonly ScriptBatches: typeof ScriptBatches;
}

interface RedisTime {
  /** Redis' time at a moment of this process's clock; never later than the true one. */
  readonly at: (localUs: number) => number;
  readonly sample: () => void;
  readonly ready: Promise<void>;
}

/** Asks for the time again and again. The clock of Redis is ahead of ours by at least what the quickest answer says. */
function followClock({ net: { connect } }: Parts, port: number): RedisTime {
  const aheadUs: number[] = [];
  let rest = '';
  let started: () => void = () => undefined;
  const ready = new Promise<void>((resolve) => (started = resolve));
  const socket = connect({ host: '127.0.0.1', port });
  const sample = (): boolean => socket.write('TIME\r\n');
  socket.on('data', (chunk) => {
    const heardUs = performance.now() * 1000;
    rest += chunk.toString();
    const answer = /\$\d+\r\n(\d+)\r\n\$\d+\r\n(\d+)\r\n$/.exec(rest);
    if (answer === null) return;
    rest = '';
    aheadUs.push(Number(answer[1]) * 1e6 + Number(answer[2]) - heardUs);
    if (aheadUs.length > 50) aheadUs.shift();
    if (aheadUs.length < 20) sample();
    else started();
  });
  sample();
  return { at: (localUs) => Math.floor(localUs + Math.max(...aheadUs)), sample, ready };
}

/**
 * Every admission is on the disk before its caller hears of it: no crash can hide one. Returns what begins another
 * file.
 */
function keepJournal(
  { fs: { openSync, writeSync }, LeaseHolder, ScriptBatches }: Parts,
  time: RedisTime,
): (file: string) => void {
  let journal = 0;
  const decideAgain = LeaseHolder.prototype.decideAgain;
  LeaseHolder.prototype.decideAgain = function (cost, nowUs) {
    const answer = decideAgain.call(this, cost, nowUs);
    if (answer.kind === 'admitted') writeSync(journal, `lease ${time.at(nowUs)} ${cost}\n`);
    return answer;
  };
  const ask = ScriptBatches.prototype.ask;
  ScriptBatches.prototype.ask = function (lane, decision) {
    const { question } = decision;
    ask.call(this, lane, {
      question,
      resolve(answer) {
        const admitted = question.verb === 'check' && answer.verdicts.every(({ allowed }) => allowed);
        if (admitted) writeSync(journal, `store ${answer.atUs} ${question.cost}\n`);
        decision.resolve(answer);
      },
      reject: (error) => decision.reject(error),
    });
  };
  return (file) => {
    journal = openSync(file, 'a');
  };
}

/** Returns what makes one mistake from now on, or none. */
function mistakes({
  LeaseHolder,
  LeaseTable,
  ScriptBatches,
}: Parts): (mistake: LeaseMistake | undefined) => void {
  const { lease, returnLease } = ScriptBatches.prototype;
  const { latestUs } = LeaseHolder.prototype;
  const keyOf = LeaseTable.prototype['keyOf'];
  const numberOf = ({ plan }: Limit, name: string): number => Number(Reflect.get(plan.numbers, name));
  const plant: Readonly<Record<LeaseMistake, () => void>> = {
    'slots of the past are spent': () => {
      LeaseHolder.prototype.latestUs = () => 0;
    },
    'a time that may be early': () => {
      LeaseHolder.prototype.latestUs = function (nowUs) {
        const { storeUs, heardUs } = this['moment'];
        return storeUs + Math.max(0, nowUs - heardUs);
      };
    },
    'a return in full': () => {
      const granted = new Map<number, number>();
      ScriptBatches.prototype.lease = async function (key, limit, want) {
        const answer = await lease.call(this, key, limit, want);
        if (answer.grant !== undefined) granted.set(answer.grant.end.us, answer.grant.tokens);
        return answer;
      };
      ScriptBatches.prototype.returnLease = async function (key, limit, [, , endUs]) {
        const tokens = granted.get(endUs) ?? 0;
        const { storeUs: atUs } = await lease.call(this, key, limit, 1);
        const verdict = { allowed: true, remaining: 0, retryAfterUs: 0, resetAfterUs: 0, delayUs: 0 };
        const question = { verb: 'check', limits: [limit], cost: tokens, keys: [key] } as const;
        // As if the policy had no leases: with them it gets no refund.
        Reflect.set(limit.policy, 'leases', false);
        const refunded = this.refund({ question, reserved: { verdicts: [verdict], atUs } });
        Reflect.set(limit.policy, 'leases', true);
        await refunded;
        return true;
      };
    },
    'a grant above the burst': () => {
      ScriptBatches.prototype.lease = async function (key, limit, want) {
        const answer = await lease.call(this, key, limit, want);
        const units = numberOf(limit, 'capacityUnits') + want * numberOf(limit, 'tokenUnits');
        const end = { us: answer.storeUs + Math.ceil(units / numberOf(limit, 'drainUnits')), fraction: 0 };
        return { ...answer, grant: { tokens: want, end } };
      };
    },
    'a lease is kept across a change of numbers': () => {
      LeaseTable.prototype['keyOf'] = function (limit: Limit, nowUs: number) {
        return this['keys'].get(`${limit.plan.stateId}\n${limit.stateKey}`) ?? keyOf.call(this, limit, nowUs);
      };
    },
  };
  return (mistake) => {
    Object.assign(ScriptBatches.prototype, { lease, returnLease });
    Object.assign(LeaseHolder.prototype, { latestUs });
    Object.assign(LeaseTable.prototype, { keyOf });
    if (mistake !== undefined) plant[mistake]();
  };
}

interface OtherFunctions {
  readonly followClock: typeof followClock;
  readonly keepJournal: typeof keepJournal;
  readonly mistakes: typeof mistakes;
  readonly leasedPolicy: typeof leasedPolicy;
}

/** Light traffic, and every now and then a flood in all processes at the same time. */
function serveLeases(parts: Parts, clockPort: number, others: OtherFunctions): void {
  const { createLimiter, LEASED: policies, redisStore } = parts;
  const time = others.followClock(parts, clockPort);
  const writeTo = others.keepJournal(parts, time);
  const makeMistake = others.mistakes(parts);
  const inFlight = new Set<Promise<unknown>>();
  let opened: { readonly opening: Opening; readonly limiter: Limiter } | undefined;
  let policy: Policy<Partial<TokenBucketNumbers>> | Policy | undefined;
  let busy = false;
  let turns = 0;
  const check = (cost: number): void => {
    if (opened === undefined || policy === undefined) return;
    const decision = opened.limiter.check(policy.for('hot'), { cost });
    inFlight.add(decision);
    void decision.finally(() => inFlight.delete(decision));
  };
  const send = (): void => {
    const isFlood = Math.floor(time.at(performance.now() * 1000) / 300_000) % 3 === 2;
    for (let request = isFlood ? 40 : 1; request > 0; request -= 1) check(turns % 7 === 0 ? 3 : 1);
  };
  setInterval(() => {
    time.sample();
    turns += 1;
    if (turns % 10 === 0 && process.connected) process.send?.('tick');
    if (busy) send();
  }, 10);
  const open = (opening: Opening): void => {
    const store = redisStore(opening.store);
    const limiter = createLimiter({ store, failurePolicy: 'failClosed', deadlineMs: 10_000 });
    // Who listens is not warned of an outage.
    limiter.on('storeError', () => undefined);
    opened = { opening, limiter };
    policy ??= others.leasedPolicy(policies, `fleet-${opening.run}`, opening.numbers);
  };
  const obey = async (message: ToLeaseProcess): Promise<void> => {
    await time.ready;
    const before = opened;
    if (message.type === 'open') {
      policy = undefined;
      makeMistake(message.opening.mistake);
      writeTo(message.opening.journal);
      open(message.opening);
    }
    if (message.type === 'reopen' && before !== undefined) open(before.opening);
    if (message.type === 'open' || message.type === 'reopen') await before?.limiter.close();
    if (message.type === 'override') policy?.override('hot', message.numbers);
    if (message.type === 'traffic') busy = message.on;
    if (message.type === 'burst') for (let each = 0; each < message.count; each += 1) check(message.cost);
    if (!busy) await Promise.all(inFlight);
    process.send?.('done');
  };
  process.on('disconnect', () => process.exit());
  process.on('message', (message) => {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- our own test at the other end
    void obey(message as ToLeaseProcess);
  });
}
