import type { Limit, Limiter, Policy } from 'spillgate';
import type { Config } from '../config/config.ts';
import type { KeyNames } from '../config/schema/key-names.ts';
import { DEFAULT_SERVICE } from '../config/schema/service.ts';
import type { Identifier } from '../identity/identity.ts';
import { policyReaders } from '../rules/policy-readers.ts';
import type { RuleEngine } from '../rules/rule-outcome.ts';
import type { RequestTracer } from '../telemetry/tracing.ts';
import type { DescriptorFiles } from './rls/descriptor-directory.ts';
import { descriptorLimits, type DescriptorLimits } from './rls/descriptor-limits.ts';
import { RefundLedger } from './rls/charges.ts';

/** What belongs to one configuration. A call keeps the one it started with. */
export interface ServiceSnapshot {
  readonly config: Config;
  readonly limiter: Limiter;
  /** Every policy in use, by name. */
  readonly policies: ReadonlyMap<string, Policy>;
  readonly bind: BindLimit;
  readonly ruleEngine: RuleEngine;
  /** Left out: nobody can prove who they are. */
  readonly identifier?: Identifier | undefined;
  /** What descriptors of Envoy meet. */
  readonly descriptorLimits: DescriptorLimits;
  /** What Envoy may give back; undefined: nothing. */
  readonly refunds: RefundLedger | undefined;
  /** Undefined: nothing is traced. */
  readonly tracer: RequestTracer['startCall'] | undefined;
}

/** What a service is made of besides its configuration. */
export interface ServiceParts extends Pick<
  ServiceSnapshot,
  'limiter' | 'policies' | 'ruleEngine' | 'identifier'
> {
  readonly files: DescriptorFiles;
  /** Which API keys there are. */
  readonly keys: KeyNames;
  readonly tracing: { readonly tracer: RequestTracer } | undefined;
}

export function serviceSnapshot(
  config: Config,
  { files, tracing, keys, ...parts }: ServiceParts,
): ServiceSnapshot {
  const bind = limitBinder(config, parts.policies, keys);
  const { rls } = config.service ?? DEFAULT_SERVICE;
  const limits = descriptorLimits({ rls, files: files.files, bind });
  const refunds = rls.refunds && rls.compat === 'exact' ? new RefundLedger() : undefined;
  return { ...parts, config, bind, descriptorLimits: limits, refunds, tracer: tracing?.tracer.startCall };
}

/** Binds a policy to a key as applications and operators know it; undefined if there is no such policy. */
export type BindLimit = (policy: string, key: string) => Limit | undefined;

/**
 * The key is what the rules of the gateway would read: an address stands for its network, a secret for its hash, or for
 * the name of its API key.
 */
function limitBinder(config: Config, policies: ServiceSnapshot['policies'], keys: KeyNames): BindLimit {
  const readers = policyReaders(config, keys);
  const bound = new Map(
    [...policies].map(([name, policy]) => {
      // A policy that no rule uses counts the key as it is given.
      const { written } = readers.get(name)?.[0] ?? AS_GIVEN;
      return [name, { policy, written }] as const;
    }),
  );
  return (name, key) => {
    const found = bound.get(name);
    return found?.policy.for(found.written(key));
  };
}

const AS_GIVEN = { written: (key: string): string => key };
