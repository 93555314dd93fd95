// Which limits a descriptor meets: by the mapping of our configuration, else by files of envoyproxy/ratelimit.
import { createHash } from 'node:crypto';
import {
  fixedWindow,
  parseDuration,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type Limit,
  type Policy,
} from 'spillgate';
import { compositeKey } from 'spillgate/http';
import type { RlsConfig } from '../../config/schema/service.ts';
import {
  nodeName,
  type DescriptorFile,
  type DescriptorNode,
  overrideUnit,
  unitMs,
  unitOfLength,
  type LimitUnit,
} from './descriptor-file.ts';

/** What a descriptor of a request has to pass. */
export interface DescriptorMatch {
  readonly limits: readonly Limit[];
  /** Nothing is admitted: `requests_per_unit: 0`. */
  readonly closed: boolean;
  /** The limits hold one more than is admitted, so that what is over can be told from what is exactly full. */
  readonly saturates: boolean;
  readonly shadow: boolean;
  readonly quota: boolean;
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
  readonly name: string;
  readonly replaces: readonly string[];
  /** What the answer calls the limit. */
  readonly announced: AnnouncedLimit;
}

export interface AnnouncedLimit {
  readonly requestsPerUnit: number;
  readonly unit: LimitUnit | undefined;
  readonly name: string;
}

/** `unlimited`: a limit that is none. Undefined: nothing is said about the descriptor. */
export type DescriptorOutcome = DescriptorMatch | 'unlimited' | undefined;

export interface DescriptorLimits {
  /** Whether anything is configured for the domain. */
  knows(domain: string): boolean;
  match(domain: string, descriptor: RlsDescriptor): DescriptorOutcome;
}

export interface DescriptorSources {
  readonly rls: RlsConfig;
  readonly files: readonly DescriptorFile[];
  /** Policies of the configuration, bound to keys as the rules read them. */
  readonly bind: (policy: string, key: string) => Limit | undefined;
}

export function descriptorLimits({ rls, files, bind }: DescriptorSources): DescriptorLimits {
  const trees = new Map<string, DescriptorTree>();
  for (const { domain, descriptors } of files) {
    const known = trees.get(domain) ?? new DescriptorTree(rls, [domain]);
    known.add(descriptors);
    trees.set(domain, known);
  }
  const domains = new Set([...trees.keys(), ...rls.descriptors.map(({ domain }) => domain)]);
  const overrides = new RequestedLimits(rls);
  return {
    knows: (domain) => domains.has(domain),
    match: (domain, descriptor) => {
      // As in the reference server: a request may bring a limit only to a domain that is known.
      if (!domains.has(domain)) return undefined;
      if (descriptor.limit !== undefined)
        return overrides.match(domain, descriptor.entries, descriptor.limit);
      const { entries } = descriptor;
      const mapped = rls.descriptors.find((rule) => rule.domain === domain && fits(rule, entries));
      return mapped === undefined ? trees.get(domain)?.find(entries) : mappedMatch(mapped, entries, bind);
    },
  };
}

type MappedDescriptor = RlsConfig['descriptors'][number];

function fits({ entries: wanted }: MappedDescriptor, entries: readonly DescriptorEntry[]): boolean {
  return (
    wanted.length === entries.length &&
    wanted.every(({ key, value }, at) => {
      const entry = entries[at];
      return entry?.key === key && (value === undefined || wildcard(value).test(entry.value));
    })
  );
}

function mappedMatch(
  { entries: wanted, policies, shadow }: MappedDescriptor,
  entries: readonly DescriptorEntry[],
  bind: DescriptorSources['bind'],
): DescriptorMatch {
  // Whom a policy counts: the values that the mapping leaves open.
  const open = entries.filter((_, at) => wanted[at]?.value?.includes('*') ?? true);
  const [only] = open;
  const key =
    open.length === 1 && only !== undefined ? only.value : compositeKey(open.map(({ value }) => value));
  const limits = policies.flatMap((name) => bind(name, key === '' ? EMPTY_VALUE : key) ?? []);
  return {
    limits,
    closed: false,
    saturates: false,
    shadow,
    quota: false,
    metadata: undefined,
    name: '',
    replaces: [],
    announced: announcedOf(limits[0]?.policy),
  };
}

/** Stands for a value that is empty, and for descriptors that leave nothing open: a key has at least one character. */
const EMPTY_VALUE = '*';

const announcedPolicies = new WeakMap<Policy, AnnouncedLimit>();

/** A policy in the words of the protocol: so many per unit, where its window is one. */
function announcedOf(policy: Policy | undefined): AnnouncedLimit {
  if (policy === undefined) return { requestsPerUnit: 0, unit: undefined, name: '' };
  const known = announcedPolicies.get(policy);
  if (known !== undefined) return known;
  const numbers = new Map<string, unknown>(Object.entries(policy.numbers ?? {}));
  const amount = Number(numbers.get('quota') ?? numbers.get('average') ?? policy.limit);
  const unit = unitOfLength(spanMs(numbers.get('window') ?? numbers.get('period')));
  const made = { requestsPerUnit: unit === undefined ? policy.limit : amount, unit, name: policy.name };
  announcedPolicies.set(policy, made);
  return made;
}

function spanMs(span: unknown): number {
  return span === undefined
    ? 0
    : parseDuration(span, { name: 'window', minUs: 1, maxUs: Number.MAX_SAFE_INTEGER }) / 1000;
}

const patterns = new Map<string, RegExp>();
const MAX_PATTERNS = 10_000;

/** `*` stands for any characters. */
function wildcard(text: string): RegExp {
  const known = patterns.get(text);
  if (known !== undefined) return known;
  if (patterns.size >= MAX_PATTERNS) patterns.clear();
  const made = new RegExp(
    `^${text
      .split('*')
      .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`))
      .join('[^]*')}$`,
  );
  patterns.set(text, made);
  return made;
}

/** The descriptors of one domain. */
class DescriptorTree {
  private readonly rls: RlsConfig;
  /** The domain and what the nodes above are called. */
  private readonly path: readonly string[];
  private readonly byName = new Map<string, CompiledNode>();
  /** In the order of the file. */
  private readonly wildcards: { readonly pattern: RegExp; readonly node: CompiledNode }[] = [];

  constructor(rls: RlsConfig, path: readonly string[]) {
    this.rls = rls;
    this.path = path;
  }

  add(nodes: readonly DescriptorNode[]): void {
    for (const node of nodes) {
      const name = nodeName(node);
      const compiled = compileNode(node, this.rls, [...this.path, name]);
      this.byName.set(name, compiled);
      if (node.value.includes('*')) this.wildcards.push({ pattern: wildcard(name), node: compiled });
    }
  }

  /** A limit counts only at exactly the depth of the last entry. */
  find(entries: readonly DescriptorEntry[]): DescriptorOutcome {
    return this.findFrom(entries, []);
  }

  /** `shared`: what the entries above are counted as, where that is not their value. */
  private findFrom(
    entries: readonly DescriptorEntry[],
    shared: readonly (string | undefined)[],
  ): DescriptorOutcome {
    const entry = entries[shared.length];
    const node = entry === undefined ? undefined : this.nodeFor(entry);
    if (node === undefined) return undefined;
    const next = [...shared, node.sharedValue];
    return next.length === entries.length ? node.match(entries, next) : node.children.findFrom(entries, next);
  }

  private nodeFor({ key, value }: DescriptorEntry): CompiledNode | undefined {
    const name = `${key}_${value}`;
    return (
      this.byName.get(name) ??
      this.wildcards.find(({ pattern }) => pattern.test(name))?.node ??
      this.byName.get(key)
    );
  }
}

interface CompiledNode {
  readonly children: DescriptorTree;
  /** With `share_threshold`: what all values that match are counted as. */
  readonly sharedValue: string | undefined;
  match(entries: readonly DescriptorEntry[], shared: readonly (string | undefined)[]): DescriptorOutcome;
}

function compileNode(node: DescriptorNode, rls: RlsConfig, path: readonly string[]): CompiledNode {
  const children = new DescriptorTree(rls, path);
  children.add(node.children);
  const sharedValue = node.shareThreshold ? node.value : undefined;
  const { limit, shadow, quota, metadata } = node;
  if (limit === undefined) return { children, sharedValue, match: () => undefined };
  const { rate, name, replaces } = limit;
  if (rate === undefined) return { children, sharedValue, match: () => 'unlimited' };
  const { unit, requestsPerUnit } = rate;
  const saturates = rls.compat === 'strict';
  const policy = policyOf(rls, policyName(path), { requestsPerUnit, unit });
  const announced = { requestsPerUnit, unit, name };
  return {
    children,
    sharedValue,
    match: (entries, shared) => ({
      limits: policy === undefined ? [] : [policy.for(countedKey(entries, shared))],
      closed: policy === undefined,
      saturates,
      shadow,
      quota,
      metadata,
      name,
      replaces,
      announced,
    }),
  };
}

function countedKey(
  entries: readonly DescriptorEntry[],
  shared: readonly (string | undefined)[] = [],
): string {
  return compositeKey(entries.map(({ value }, at) => shared[at] ?? value));
}

interface UnitRate {
  readonly unit: LimitUnit;
  readonly requestsPerUnit: number;
}

/** Undefined where nothing is ever admitted: no policy says that. */
function policyOf(
  { algorithm, compat }: RlsConfig,
  name: string,
  { unit, requestsPerUnit }: UnitRate,
): Policy | undefined {
  const strict = compat === 'strict';
  const quota = strict ? requestsPerUnit + 1 : requestsPerUnit;
  if (quota === 0) return undefined;
  const window = unitMs(unit);
  // The reference server counts in fixed windows.
  switch (strict ? 'fixedWindow' : algorithm) {
    case 'slidingWindowCounter':
      return slidingWindowCounter({ name, quota, window });
    case 'slidingWindowLog':
      return slidingWindowLog({ name, quota, window });
    case 'tokenBucket':
      return tokenBucket({ name, average: quota, burst: quota, period: window });
    default:
      return fixedWindow({ name, quota, window });
  }
}

const MAX_NAME_LENGTH = 64;
const HASH_LENGTH = 12;

/** A name of a policy for every path, and never the same for two. */
function policyName(path: readonly string[]): string {
  const text = path.join('.');
  const plain = text.replaceAll(/[^A-Za-z0-9_.-]/g, '-');
  if (plain === text && text.length <= MAX_NAME_LENGTH - HASH_LENGTH && path.length === 2) return text;
  const hash = createHash('sha256').update(JSON.stringify(path)).digest('hex').slice(0, HASH_LENGTH);
  return `${plain.slice(0, MAX_NAME_LENGTH - HASH_LENGTH - 1)}.${hash}`;
}

const MAX_REQUESTED_POLICIES = 1000;

/** Limits that requests bring along. What a descriptor has spent stays spent when its limit changes. */
class RequestedLimits {
  private readonly rls: RlsConfig;
  private readonly policies = new Map<string, Policy | undefined>();

  constructor(rls: RlsConfig) {
    this.rls = rls;
  }

  match(
    domain: string,
    entries: readonly DescriptorEntry[],
    { requestsPerUnit, unit: number }: NonNullable<RlsDescriptor['limit']>,
  ): DescriptorMatch {
    const unit = overrideUnit(number);
    if (unit === undefined) {
      throw new RlsError(
        'invalid',
        `a limit of a descriptor has the unit ${number}; expected 1 (SECOND) to 6 (YEAR)`,
      );
    }
    const policy = this.policyFor({ unit, requestsPerUnit });
    const key = compositeKey([domain, ...entries.flatMap((entry) => [entry.key, entry.value])]);
    return {
      limits: policy === undefined ? [] : [policy.for(key)],
      closed: policy === undefined,
      saturates: this.rls.compat === 'strict',
      shadow: false,
      quota: false,
      metadata: undefined,
      name: '',
      replaces: [],
      announced: { requestsPerUnit, unit, name: '' },
    };
  }

  private policyFor(rate: UnitRate): Policy | undefined {
    const id = `${rate.unit} ${rate.requestsPerUnit}`;
    const known = this.policies.get(id);
    if (known !== undefined) return known;
    if (this.policies.size >= MAX_REQUESTED_POLICIES) this.policies.clear();
    const made = policyOf(this.rls, `requested.${rate.unit}`, rate);
    this.policies.set(id, made);
    return made;
  }
}

/** What Envoy asks: one domain, and descriptors that are all to be met. */
export interface RlsRequest {
  readonly domain: string;
  readonly descriptors: readonly RlsDescriptor[];
  /** 0: left out. */
  readonly hitsAddend: number;
}

export interface RlsDescriptor {
  readonly entries: readonly DescriptorEntry[];
  /** A limit that the request brings along, by the numbers of the protocol. */
  readonly limit: { readonly requestsPerUnit: number; readonly unit: number } | undefined;
  /** Undefined: that of the request. 0 looks and spends nothing. */
  readonly hitsAddend: bigint | undefined;
  /** Hits are given back. */
  readonly isNegativeHits: boolean;
}

export interface DescriptorEntry {
  readonly key: string;
  readonly value: string;
}

export type RlsErrorCode = 'invalid' | 'unavailable' | 'unimplemented';

/** A question without an answer. Nothing was counted. */
export class RlsError extends Error {
  readonly code: RlsErrorCode;

  constructor(code: RlsErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}
