import {
  fixedWindow,
  leakyBucket,
  LimiterError,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
} from 'spillgate';
import { z } from 'zod';
import { type DeepReadonly, duration, list, plainText } from './fields.ts';

/** Ten years, as in the library. */
const MAX_MS = 3650 * 86_400_000;
const FAILURE_POLICIES = ['passThrough', 'failClosed', 'inMemoryFallback'] as const;

const count = () => z.int().min(1);
const time = () => duration({ min: 1, max: MAX_MS });

export function failurePolicy() {
  return z.enum(FAILURE_POLICIES);
}

const ofEveryPolicy = {
  failure_policy: failurePolicy().optional().meta({
    description: 'Who answers for this policy while Redis cannot. Else `rate_limit.failure_policy`.',
  }),
};

function overrides<Numbers extends z.ZodRawShape>(numbers: Numbers) {
  return list(
    z.strictObject({ key: plainText().meta({ description: 'Whose numbers these are.' }), ...numbers }),
    10_000,
  )
    .default([])
    .meta({ description: 'Other numbers for single keys.' });
}

const bucketNumbers = {
  average: count().meta({ description: 'Tokens that come back per `period`.' }),
  burst: count()
    .optional()
    .meta({ description: 'Tokens a full bucket holds, and the largest cost. Else `average`.' }),
  period: time().prefault('1s').meta({ description: 'The time in which `average` tokens come back.' }),
};

const windowNumbers = {
  quota: count().meta({ description: 'Units admitted per `window`.' }),
  window: time().meta({ description: 'How long the window is.' }),
};

const leakyNumbers = {
  average: count().meta({ description: 'Units that leave the queue per `period`.' }),
  period: time().prefault('1s').meta({ description: 'The time in which `average` units leave.' }),
  max_delay: duration({ max: MAX_MS }).meta({ description: 'The longest wait a request is queued for.' }),
};

const fixedNumbers = {
  ...windowNumbers,
  offset: duration({ max: MAX_MS })
    .optional()
    .meta({ description: 'Shifts the edges of the windows, which are at multiples of `window` since 1970.' }),
};

/** What an override may change; what it leaves out stays. */
const instead = { description: 'For this key.' };
const otherBucketNumbers = {
  average: count().exactOptional().meta(instead),
  burst: count().exactOptional().meta(instead),
  period: time().exactOptional().meta(instead),
};
const otherLeakyNumbers = {
  average: count().exactOptional().meta(instead),
  period: time().exactOptional().meta(instead),
  max_delay: duration({ max: MAX_MS }).exactOptional().meta(instead),
};
const otherWindowNumbers = {
  quota: count().exactOptional().meta(instead),
  window: time().exactOptional().meta(instead),
};
const otherFixedNumbers = {
  ...otherWindowNumbers,
  offset: duration({ max: MAX_MS }).exactOptional().meta(instead),
};

const algorithms = [
  z.strictObject({
    algorithm: z.literal('tokenBucket').default('tokenBucket').meta({ description: 'How it is counted.' }),
    ...bucketNumbers,
    overrides: overrides(otherBucketNumbers),
    ...ofEveryPolicy,
  }),
  z.strictObject({
    algorithm: z.literal('leakyBucket'),
    ...leakyNumbers,
    overrides: overrides(otherLeakyNumbers),
    ...ofEveryPolicy,
  }),
  z.strictObject({
    algorithm: z.literal('fixedWindow'),
    ...fixedNumbers,
    overrides: overrides(otherFixedNumbers),
    ...ofEveryPolicy,
  }),
  z.strictObject({
    algorithm: z.literal('slidingWindowLog'),
    ...windowNumbers,
    overrides: overrides(otherWindowNumbers),
    ...ofEveryPolicy,
  }),
  z.strictObject({
    algorithm: z.literal('slidingWindowCounter'),
    ...windowNumbers,
    overrides: overrides(otherWindowNumbers),
    ...ofEveryPolicy,
  }),
] as const;

export const policy = z.discriminatedUnion('algorithm', algorithms);

export type PolicyConfig = DeepReadonly<z.output<typeof policy>>;

/** What the library says against a policy's numbers together, or nothing. It is the only one who knows. */
export function policyComplaint(name: string, config: PolicyConfig): string | undefined {
  try {
    toPolicy(name, config);
    return undefined;
  } catch (failure) {
    if (failure instanceof LimiterError) return failure.message.replace(/\.$/, '');
    throw failure;
  }
}

/** The library's policy, with the overrides of the configuration. */
export function toPolicy(name: string, config: PolicyConfig) {
  const failure = { failurePolicy: config.failure_policy };
  switch (config.algorithm) {
    case 'tokenBucket': {
      const { average, burst, period } = config;
      const made = tokenBucket({ name, average, burst, period, ...failure });
      for (const { key, ...numbers } of config.overrides) made.override(key, numbers);
      return made;
    }
    case 'leakyBucket': {
      const { average, period, max_delay: maxDelay } = config;
      const made = leakyBucket({ name, average, period, maxDelay, ...failure });
      for (const { key, max_delay: delay, ...numbers } of config.overrides) {
        made.override(key, delay === undefined ? numbers : { ...numbers, maxDelay: delay });
      }
      return made;
    }
    case 'fixedWindow': {
      const { quota, window, offset } = config;
      const made = fixedWindow({ name, quota, window, offset, ...failure });
      for (const { key, ...numbers } of config.overrides) made.override(key, numbers);
      return made;
    }
    default: {
      const { quota, window } = config;
      const define = config.algorithm === 'slidingWindowLog' ? slidingWindowLog : slidingWindowCounter;
      const made = define({ name, quota, window, ...failure });
      for (const { key, ...numbers } of config.overrides) made.override(key, numbers);
      return made;
    }
  }
}
