import type { DecisionSums, KeyActivitySnapshot } from './key-activity.ts';
import type { CountedKey, SketchSnapshot } from './key-sketch.ts';

/** A policy as an instance has it, so that whoever reads Redis can look at its states. */
export interface PublishedPolicy {
  readonly name: string;
  readonly algorithm: string;
  /** The options of the policy. */
  readonly numbers: Readonly<Record<string, unknown>>;
  /** How a gateway reads the keys that it counts by. */
  readonly key?: unknown;
}

/** What an instance tells the others about itself. */
export interface InstanceSummary {
  readonly id: string;
  /** What people call it, such as the name of its machine. */
  readonly name: string;
  readonly kind: 'gateway' | 'library';
  readonly version: string;
  readonly startedAt: string;
  readonly publishedAt: string;
  /** The same for instances with the same configuration; empty where there is none. */
  readonly configHash: string;
  readonly decisions: DecisionSums;
  readonly activity: KeyActivitySnapshot;
  readonly policies: readonly PublishedPolicy[];
  /** What only a gateway knows, such as its traffic. */
  readonly more: Readonly<Record<string, unknown>>;
}

/** Told so often, and forgotten if it is not told again for so long. */
export const PUBLISH_EVERY_MS = 2000;
export const SUMMARY_TTL_MS = 10_000;
/** Of each kind. */
export const PUBLISHED_KEYS = 50;
/** More are left out: a summary has a bound. */
export const PUBLISHED_POLICIES = 200;

/** A summary that was read from a store; undefined for what is none. */
export function readSummary(text: string): InstanceSummary | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isSummary(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isSummary(value: unknown): value is InstanceSummary {
  const activity = fieldOf(value, 'activity');
  const decisions = fieldOf(value, 'decisions');
  return (
    ['id', 'name', 'version', 'startedAt', 'publishedAt', 'configHash'].every(
      (name) => typeof fieldOf(value, name) === 'string',
    ) &&
    ['gateway', 'library'].includes(String(fieldOf(value, 'kind'))) &&
    ['allowed', 'denied', 'undecided'].every((name) => isCount(fieldOf(decisions, name))) &&
    isCount(fieldOf(activity, 'windowMs')) &&
    isSketch(fieldOf(activity, 'busiest')) &&
    isSketch(fieldOf(activity, 'denied')) &&
    isListOf(fieldOf(value, 'policies'), isPolicy) &&
    typeof fieldOf(value, 'more') === 'object' &&
    fieldOf(value, 'more') !== null
  );
}

function isSketch(value: unknown): value is SketchSnapshot {
  return isCount(fieldOf(value, 'floor')) && isListOf(fieldOf(value, 'keys'), isCountedKey);
}

function isCountedKey(value: unknown): value is CountedKey {
  return (
    ['policy', 'key'].every((name) => typeof fieldOf(value, name) === 'string') &&
    ['count', 'error'].every((name) => isCount(fieldOf(value, name)))
  );
}

function isPolicy(value: unknown): value is PublishedPolicy {
  const numbers = fieldOf(value, 'numbers');
  return (
    ['name', 'algorithm'].every((name) => typeof fieldOf(value, name) === 'string') &&
    typeof numbers === 'object' &&
    numbers !== null
  );
}

function isListOf(value: unknown, isOne: (each: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(isOne);
}

function isCount(value: unknown): boolean {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? Reflect.get(value, name)
    : undefined;
}
