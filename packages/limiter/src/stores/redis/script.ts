// Puts scripts together. Every call runs its script from the first line, so a script knows only the algorithms that are
// asked for: a token bucket does not pay for the log.
import { hash } from 'node:crypto';
import { MAX_SENT_NUMBERS } from '../../algorithms/algorithm.ts';
import { ALGORITHMS, type AnyAlgorithm } from '../../algorithms/index.ts';
import type { Limit } from '../../limit.ts';
import {
  BESIDE_DECIDE,
  DECIDE,
  FRAME_HEAD,
  FRAME_TAIL,
  LEASE,
  PENALTY,
  PRELUDE,
  REFUND,
  SETTLE,
  TWINS,
  TWINS_OF,
} from './script.generated.ts';

/** A script and the name under which servers remember it. */
export interface Script {
  readonly sha1: string;
  readonly source: string;
}

/** The script that decides questions about these limits. */
export function decideScript(questions: Iterable<{ readonly limits: readonly Limit[] }>): Script {
  return remembered(DECIDES, algorithmsOf(questions) | penaltyBit(questions), decideScriptOf);
}

/** The script that gives refunds to these limits. */
export function refundScript(limits: readonly Limit[]): Script {
  return remembered(REFUNDS, algorithmsOf([{ limits }]), refundScriptOf);
}

/** The script that settles reservations of these limits. */
export function settleScript(limits: readonly Limit[]): Script {
  return remembered(SETTLES, algorithmsOf([{ limits }]), settleScriptOf);
}

/** The script that leases units of a limit, and takes the rest of a lease back. */
export function leaseScript(limit: Limit): Script {
  return remembered(LEASES, algorithmsOf([{ limits: [limit] }]), leaseScriptOf);
}

/** At most one per set of algorithms, and a program uses few. */
const DECIDES = new Map<number, Script>();
const REFUNDS = new Map<number, Script>();
const SETTLES = new Map<number, Script>();
const LEASES = new Map<number, Script>();

/** `hasPenalties`: some of the limits block keys. */
export function decideScriptOf(algorithms: readonly AnyAlgorithm[], hasPenalties = false): Script {
  return named(withPenalties(frame(algorithms, hasPenalties ? PENALTY : '') + DECIDE, hasPenalties));
}

export function refundScriptOf(algorithms: readonly AnyAlgorithm[]): Script {
  return named(refundHead(algorithms) + REFUND);
}

export function settleScriptOf(algorithms: readonly AnyAlgorithm[]): Script {
  return named(refundHead(algorithms) + SETTLE);
}

export function leaseScriptOf(algorithms: readonly AnyAlgorithm[]): Script {
  return named(refundHead(algorithms) + twins(algorithms, 'lease') + leaseOfLua(algorithms) + LEASE);
}

function refundHead(algorithms: readonly AnyAlgorithm[]): string {
  return head(algorithms) + BESIDE_DECIDE + twins(algorithms, 'refund') + refundOfLua(algorithms);
}

/** A bit per algorithm. */
function algorithmsOf(questions: Iterable<{ readonly limits: readonly Limit[] }>): number {
  let bits = 0;
  for (const { limits } of questions) {
    for (const { plan } of limits) bits |= 1 << plan.algorithm.redis.number;
  }
  return bits;
}

function remembered(
  scripts: Map<number, Script>,
  bits: number,
  make: (algorithms: readonly AnyAlgorithm[], hasPenalties: boolean) => Script,
): Script {
  const known = scripts.get(bits);
  if (known !== undefined) return known;
  const algorithms = Object.values(ALGORITHMS).filter(({ redis }) => (bits & (1 << redis.number)) !== 0);
  const script = make(algorithms, (bits & PENALTY_BIT) !== 0);
  scripts.set(bits, script);
  return script;
}

function head(algorithms: readonly AnyAlgorithm[]): string {
  return withPenalties(frame(algorithms, ''), false);
}

function frame(algorithms: readonly AnyAlgorithm[], penalty: string): string {
  const decides = PRELUDE + twins(algorithms, 'decide') + penalty;
  return decides + FRAME_HEAD + algorithmLines(algorithms) + FRAME_TAIL;
}

/** What only limits that block keys need: its lines, between two marks. */
const PENALTY_LINES = /^ *--@penalty\n([^]*?)^ *--@end\n/gm;

function withPenalties(source: string, hasPenalties: boolean): string {
  return source.replaceAll(PENALTY_LINES, hasPenalties ? '$1' : '');
}

/** Beside the bits of the algorithms. */
const PENALTY_BIT = 1 << 30;

function penaltyBit(questions: Iterable<{ readonly limits: readonly Limit[] }>): number {
  for (const { limits } of questions) {
    for (const { plan } of limits) if (plan.penalty !== undefined) return PENALTY_BIT;
  }
  return 0;
}

function twins(algorithms: readonly AnyAlgorithm[], part: 'decide' | 'refund' | 'lease'): string {
  const files = new Set(algorithms.flatMap(({ name }) => filesOf(name)));
  return [...files].map((file) => TWINS[file]?.[part] ?? '').join('');
}

function filesOf(name: string): readonly string[] {
  const files = TWINS_OF[name];
  if (files === undefined) throw new Error(`script.generated.ts has no ${name}; run: npm run generate`);
  return files;
}

const DOUBLE_BYTES = 8;

/**
 * The function that decides, the bytes of a state (at least, and per further record), the least value of each number.
 */
function algorithmLines(algorithms: readonly AnyAlgorithm[]): string {
  return algorithms
    .map(({ name, redis }) => {
      const least = Object.values<number>(redis.numbers);
      const bytes = [redis.leastDoubles * DOUBLE_BYTES, redis.recordDoubles * DOUBLE_BYTES];
      const values = [...bytes, ...least, ...Array<number>(MAX_SENT_NUMBERS - least.length).fill(0)];
      return [
        `  if number == '${redis.number}' then\n`,
        '    decide, leastBytes, recordBytes, leastA, leastB, leastC, leastD =\n',
        `      decide${luaName(name)}, ${values.join(', ')}\n`,
        '  end\n',
      ].join('');
    })
    .join('');
}

function refundOfLua(algorithms: readonly AnyAlgorithm[]): string {
  const lines = algorithms.map(
    ({ name }) => `  if decide == decide${luaName(name)} then return refund${luaName(name)} end\n`,
  );
  return `local function refundOf(decide)\n${lines.join('')}end\n`;
}

function leaseOfLua(algorithms: readonly AnyAlgorithm[]): string {
  const lines = algorithms.flatMap(({ name, leases }) => {
    const own = luaName(name);
    const parts = `roomIn${own}, charge${own}, takeBack${own}`;
    const hasTwin = TWINS[filesOf(name).at(-1) ?? '']?.lease !== '';
    return hasTwin
      ? [`  if decide == decide${own} then return ${parts}, ${leases?.passes ?? true} end\n`]
      : [];
  });
  return `local function leaseOf(decide)\n${lines.join('')}end\n`;
}

function luaName(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}

function named(source: string): Script {
  return { sha1: hash('sha1', source, 'hex'), source };
}

/** One command on its way to the server that has its key. */
export interface Command {
  /** '' for a command about the server itself. */
  readonly key: string;
  readonly name: string;
  readonly args: readonly string[];
  /** What `EVALSHA` runs: it is sent whole to a server that does not know it. */
  readonly script?: Script;
  /** Gets a reply that comes after the call has been given up: it ran all the same. */
  readonly onLateReply?: (reply: unknown) => void;
}

/** Runs a script by its name. */
export function scriptCommand(script: Script, keys: readonly string[], args: readonly string[]): Command {
  const [key = ''] = keys;
  return { key, name: 'EVALSHA', args: [script.sha1, String(keys.length), ...keys, ...args], script };
}

/** The same by its source, for a server that answered `NOSCRIPT`. */
export function withSource(command: Command, script: Script): Command {
  return { ...command, name: 'EVAL', args: command.args.with(0, script.source) };
}
