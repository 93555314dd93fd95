import type { PolicyOption } from './algorithms/algorithm.ts';
import { ALGORITHMS, type AlgorithmName, type AnyAlgorithm } from './algorithms/index.ts';
import type { Policy } from './limit.ts';
import { definePolicy, readOptions, type PolicyOptions } from './policy.ts';

type AnyOptions = Readonly<Record<string, unknown>>;

/** A policy function for programs that offer all of them, such as a configuration file or a form. */
export interface PolicyKind {
  readonly algorithm: AlgorithmName;
  /** What the function takes besides `name` and `failurePolicy`. */
  readonly options: Readonly<Record<string, PolicyOption>>;
  /** Whether it takes `leases`. */
  readonly hasLeases: boolean;
  /** What `tokenBucket(definition)` and its like do; the values are checked. */
  define(definition: PolicyOptions & AnyOptions): Policy<AnyOptions>;
  /**
   * What makes a policy looser when it grows: of two policies, one is as tight as the other if none of these is larger.
   */
  amounts(options: AnyOptions): readonly number[];
}

/**
 * Every policy function, with a description of its options.
 *
 * @example
 * const names = policyKinds().map(({ algorithm }) => algorithm);
 */
export function policyKinds(): readonly PolicyKind[] {
  return Object.values(ALGORITHMS).map(kindOf);
}

function kindOf(algorithm: AnyAlgorithm): PolicyKind {
  return {
    algorithm: algorithm.name,
    options: algorithm.options,
    hasLeases: algorithm.leases !== undefined,
    define: (definition) => definePolicy<AnyOptions>(algorithm, definition),
    amounts: (options) => algorithm.amounts(readOptions(algorithm, options)),
  };
}
