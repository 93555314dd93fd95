import { type FailurePolicy, LimiterError, type Policy } from 'spillgate';
import { DEFAULT_POLICY } from '../config/schema/rate-limit.ts';
import { toPolicy } from '../config/schema/policy.ts';
import type { AnsweredPolicy, LimitsAnswer } from './answer.ts';
import type { ExternalLimits } from './limits-source.ts';
import { ServiceFailure } from './service/service.ts';

/** Something in an answer that is understood and not done. */
export type RefusedField = 'backendUrl' | 'failurePolicy';

export interface CompiledLimits {
  readonly limits: ExternalLimits;
  readonly refused: readonly { readonly field: RefusedField; readonly why: string }[];
}

export interface CompilerOptions {
  /** What the configuration says; the service may tighten it. */
  readonly failurePolicy: FailurePolicy;
  /** Why a backend may not be used, by its name alone; undefined if it may. */
  readonly backendUrlComplaint: (url: string) => string | undefined;
}

/** Plans are few and tenants many, so most answers share their policies. */
const MAX_POLICIES_KEPT = 10_000;
/** A policy's name is a label of metrics and a table of the memory store: it has to come from a short list. */
const MAX_POLICY_NAMES = 1000;

/** Turns answers into limits, with one `Policy` per name and numbers. */
export class LimitsCompiler {
  private readonly options: CompilerOptions;
  private readonly policies = new Map<string, Policy>();
  private readonly names = new Set<string>();

  constructor(options: CompilerOptions) {
    this.options = options;
  }

  /** Throws a `ServiceFailure` if the library refuses the numbers. */
  compile(answer: LimitsAnswer): CompiledLimits {
    const refused: { field: RefusedField; why: string }[] = [];
    const failurePolicy = notLoosened(this.options.failurePolicy, answer.failurePolicy);
    if (failurePolicy !== answer.failurePolicy) {
      refused.push({ field: 'failurePolicy', why: 'the configuration says failClosed' });
    }
    const complaint =
      answer.backendUrl === undefined ? undefined : this.options.backendUrlComplaint(answer.backendUrl);
    if (complaint !== undefined) refused.push({ field: 'backendUrl', why: complaint });
    return {
      limits: {
        step: 'cache',
        policies: answer.policies.map((each) => this.policyFor(each, failurePolicy)),
        tenantKey: answer.tenantKey,
        cost: answer.cost,
        failurePolicy,
        failureCode: answer.failureCode,
        backendUrl: complaint === undefined ? answer.backendUrl : undefined,
        requestTimeoutMs: answer.requestTimeoutMs,
      },
      refused,
    };
  }

  private policyFor({ name, config }: AnsweredPolicy, failurePolicy: FailurePolicy | undefined): Policy {
    const id = JSON.stringify([name, failurePolicy, config]);
    const known = this.policies.get(id);
    if (known !== undefined) {
      // Moves to the end: the first is the one that was not used for the longest time.
      this.policies.delete(id);
      this.policies.set(id, known);
      return known;
    }
    const made = this.make(name ?? DEFAULT_POLICY, { ...config, failure_policy: failurePolicy });
    if (this.policies.size >= MAX_POLICIES_KEPT) {
      for (const oldest of this.policies.keys()) {
        this.policies.delete(oldest);
        break;
      }
    }
    this.policies.set(id, made);
    return made;
  }

  private make(name: string, config: Parameters<typeof toPolicy>[1]): Policy {
    if (!this.names.has(name) && this.names.size >= MAX_POLICY_NAMES) {
      throw new ServiceFailure(
        'invalid',
        `the answer names one policy more than the ${MAX_POLICY_NAMES} there may be`,
      );
    }
    try {
      const made = toPolicy(name, config);
      this.names.add(name);
      return made;
    } catch (cause) {
      if (!(cause instanceof LimiterError)) throw cause;
      throw new ServiceFailure('invalid', `the answer's numbers cannot be kept: ${cause.message}`, { cause });
    }
  }
}

/** The service's failure policy, except where it would open what the configuration closes. */
function notLoosened(
  configured: FailurePolicy,
  answered: FailurePolicy | undefined,
): FailurePolicy | undefined {
  return configured === 'failClosed' && answered !== 'failClosed' ? undefined : answered;
}
