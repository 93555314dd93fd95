// The one definition of what is said over the wire: descriptors are built from it, and the published .proto is written
// from it.
import { ALGORITHM_NAMES } from '../../config/schema/policy.ts';

export type FieldType = 'string' | 'int64' | 'int32' | 'bool' | 'map' | 'FailurePolicy' | 'Policy';

export interface FieldDefinition {
  readonly name: string;
  readonly number: number;
  readonly type: FieldType;
  /** `optional`: zero can be told from left out. */
  readonly label?: 'optional' | 'repeated';
  readonly comment: string;
}

export interface MessageDefinition {
  readonly name: string;
  readonly comment: string;
  readonly fields: readonly FieldDefinition[];
}

export const PACKAGE = 'edgequota.ratelimit.v1';
export const SERVICE = 'RateLimitService';
export const METHOD = 'GetLimits';

/** Numbers of one policy: those of a token bucket by default, else those of the algorithm that is named. */
function policyFields(numbers: Readonly<Record<string, number>>): readonly FieldDefinition[] {
  const field = (
    name: string,
    rest: Pick<FieldDefinition, 'type' | 'label' | 'comment'>,
  ): FieldDefinition => ({ name, number: numbers[name] ?? 0, ...rest });
  return [
    field('algorithm', {
      type: 'string',
      comment: `${algorithmWords()}.`,
    }),
    field('quota', {
      type: 'int64',
      label: 'optional',
      comment: 'Windows and calendarQuota: units admitted per window or period.',
    }),
    field('window', { type: 'string', comment: 'Windows: how long the window is, such as "15m".' }),
    field('max_delay', { type: 'string', comment: 'leakyBucket: the longest wait in the queue.' }),
    field('every', { type: 'string', comment: 'calendarQuota: day, week, month, year or ever.' }),
    field('time_zone', { type: 'string', comment: 'calendarQuota: whose midnight counts. Left out: UTC.' }),
    field('starts_on', {
      type: 'int64',
      label: 'optional',
      comment:
        'calendarQuota: the first weekday (1 is Monday), day of the month, or month of the year. Left out: 1.',
    }),
    field('limit', {
      type: 'int64',
      label: 'optional',
      comment: 'concurrency: how much may be in flight at once.',
    }),
    field('hold', {
      type: 'string',
      comment: 'concurrency: after how long the slot of a gateway that died is free again.',
    }),
  ];
}

/** `tokenBucket (default), leakyBucket or fixedWindow` */
function algorithmWords(): string {
  const [first = '', ...others] = ALGORITHM_NAMES;
  const last = others.pop() ?? '';
  return `${[`${first} (default)`, ...others].join(', ')} or ${last}`;
}

const AVERAGE =
  'Tokens that come back per period; 0 is unlimited. Older services leave a zero out: then period has to be set.';
const BURST = 'Tokens a full bucket holds. Left out: average.';
const PERIOD = 'The time in which average tokens come back: "250ms", "1s", "1m", "1h30m".';

export const MESSAGES: readonly MessageDefinition[] = [
  {
    name: 'GetLimitsRequest',
    comment: 'Who asks, and for what.',
    fields: [
      { name: 'key', number: 1, type: 'string', comment: 'Who is counted, as the key strategy reads it.' },
      {
        name: 'headers',
        number: 2,
        type: 'map',
        comment: 'The headers that the filter lets out, with names spelled as X-Tenant-Id.',
      },
      { name: 'method', number: 3, type: 'string', comment: 'Empty if it is not sent.' },
      { name: 'path', number: 4, type: 'string', comment: 'Without query. Empty if it is not sent.' },
    ],
  },
  {
    name: 'GetLimitsResponse',
    comment: 'What holds for the request. An answer is used as a whole or not at all.',
    fields: [
      { name: 'average', number: 1, type: 'int64', label: 'optional', comment: AVERAGE },
      { name: 'burst', number: 2, type: 'int64', comment: BURST },
      { name: 'period', number: 3, type: 'string', comment: PERIOD },
      {
        name: 'cache_max_age_seconds',
        number: 4,
        type: 'int64',
        label: 'optional',
        comment: "How long the answer may be kept. Left out or 0: the gateway's default.",
      },
      { name: 'cache_no_store', number: 5, type: 'bool', comment: 'The answer is kept nowhere.' },
      {
        name: 'tenant_key',
        number: 6,
        type: 'string',
        comment: 'Counts instead of the key: 1 to 256 letters, digits, "-", "_", "." or ":".',
      },
      {
        name: 'failure_policy',
        number: 7,
        type: 'FailurePolicy',
        comment: 'Who answers while the store of the limits cannot. Never loosens a static failClosed.',
      },
      {
        name: 'failure_code',
        number: 8,
        type: 'int32',
        comment: 'The status of what fail-closed refuses: 400 to 599.',
      },
      {
        name: 'backend_url',
        number: 9,
        type: 'string',
        comment: 'Where the request goes instead, if url_policy allows it.',
      },
      ...policyFields({
        algorithm: 101,
        quota: 102,
        window: 103,
        max_delay: 104,
        every: 108,
        time_zone: 109,
        starts_on: 110,
        limit: 111,
        hold: 112,
      }),
      {
        name: 'policies',
        number: 105,
        type: 'Policy',
        label: 'repeated',
        comment: 'Several policies, all to be met, instead of the numbers above.',
      },
      {
        name: 'cost',
        number: 106,
        type: 'int64',
        label: 'optional',
        comment: 'Units that the request spends, 0 to 1000000. Left out: 1.',
      },
      {
        name: 'request_timeout',
        number: 107,
        type: 'string',
        comment: 'How long the request may take altogether, such as "30s".',
      },
    ],
  },
  {
    name: 'Policy',
    comment: 'One of several policies. Who renames a policy starts it anew.',
    fields: [
      { name: 'name', number: 1, type: 'string', comment: '1 to 64 letters, digits, "_", "-" or ".".' },
      {
        name: 'average',
        number: 2,
        type: 'int64',
        label: 'optional',
        comment: 'Tokens that come back per period, at least 1.',
      },
      { name: 'burst', number: 3, type: 'int64', comment: BURST },
      { name: 'period', number: 4, type: 'string', comment: PERIOD },
      ...policyFields({
        algorithm: 5,
        quota: 6,
        window: 7,
        max_delay: 8,
        every: 9,
        time_zone: 10,
        starts_on: 11,
        limit: 12,
        hold: 13,
      }),
    ],
  },
];

/** The fields that describe one policy: its algorithm and those of its settings that services may choose. */
export const POLICY_FIELDS: readonly string[] = MESSAGES.filter(({ name }) => name === 'Policy')
  .flatMap(({ fields }) => fields)
  .map(({ name }) => name)
  .filter((name) => name !== 'name');

export const FAILURE_POLICIES = [
  { name: 'FAILURE_POLICY_UNSPECIFIED', number: 0, comment: "The gateway's own." },
  { name: 'FAILURE_POLICY_PASSTHROUGH', number: 1, comment: 'Everybody passes.' },
  { name: 'FAILURE_POLICY_FAIL_CLOSED', number: 2, comment: 'Nobody passes.' },
  {
    name: 'FAILURE_POLICY_IN_MEMORY_FALLBACK',
    number: 3,
    comment: 'Each gateway decides with the same numbers.',
  },
] as const;
