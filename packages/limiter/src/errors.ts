/**
 * The one table of error codes: `docs/errors.md` is generated from it.
 * `cause` says what happened, `remedy` what to do about it.
 */
export const ERRORS = {
  INVALID_POLICY: {
    cause:
      'A policy was defined with a missing, unknown or out-of-range number, or with a name that cannot be used.',
    remedy:
      'Correct the value that the message names. Numbers are integers: for a slower rate use a longer `period`, not a fraction.',
  },
  INVALID_DURATION: {
    cause:
      'A duration is neither a string such as `1h30m` nor a positive number of milliseconds, or it is out of range.',
    remedy:
      'Write whole numbers with the units d, h, m, s, ms, largest first (`250ms`, `1s`, `1h30m`, `1d`), or give milliseconds as a number.',
  },
  INVALID_KEY: {
    cause: 'The key passed to `policy.for()` is not a string, is empty, or is longer than a mebibyte.',
    remedy:
      'Convert ids with `String(id)`. Decide what a missing header or user means before you check a limit: an empty key would put all of them into one bucket.',
  },
  INVALID_COST: {
    cause: 'The cost of a request is not an integer from 0 to 2^53 - 1.',
    remedy: 'Round the cost to an integer before the call. A cost of 0 decides without spending.',
  },
  INVALID_LIMITS: {
    cause:
      'A call was given no limit, more limits than one decision can cover, or something that is not a limit.',
    remedy: 'Pass what `policy.for(key)` returns, or an array of 1 to 32 of these.',
  },
  DUPLICATE_LIMIT: {
    cause:
      'The same policy and key appear twice in one check, so the second would not see what the first spends.',
    remedy: 'Name each policy and key once and raise the cost instead, or give the policies different names.',
  },
  INVALID_OPTION: {
    cause:
      'An option of `createLimiter()`, of a store, of `rateLimit()`, of `politeFetch()` or of a call is unknown, of the wrong type or out of range.',
    remedy: 'Correct the option that the message names.',
  },
  INVALID_CLOCK: {
    cause: 'The injected clock returned something other than whole microseconds between 0 and 2^52.',
    remedy: 'Return an integer number of microseconds, for example `() => Date.now() * 1000`.',
  },
  INVALID_ENVIRONMENT: {
    cause: 'An environment variable that configures the limiter has a value that cannot be used.',
    remedy: 'Correct the variable that the message names, or unset it to get its default.',
  },
  STORE_REQUIRED: {
    cause:
      'The environment asks for distributed limits, but no store that several machines can share was supplied.',
    remedy:
      'Pass `createStore` to `limiterFromEnv()`, or set `DISTRIBUTED_RATE_LIMIT_ENABLED=false` for limits per instance.',
  },
  TOO_MANY_OVERRIDES: {
    cause: 'A policy already holds the maximum number of overrides.',
    remedy:
      'Remove overrides with `policy.override(key, null)`, or define a policy per plan instead of numbers per key.',
  },
  SLOT_REQUIRED: {
    cause:
      'A limit of `concurrency()` was checked. It counts what is in flight, so somebody has to say when that has ended.',
    remedy:
      'Use `await using slot = await limiter.acquire(limits)`, or call `slot.release()` in a `finally`. `rateLimit()` and the gateway hold a slot until the response has ended.',
  },
  SLOTS_UNSUPPORTED: {
    cause: '`acquire()` was called on a limiter whose store has no `release()`.',
    remedy: 'Use the memory store or the Redis store, or implement `release()` in yours.',
  },
  BLOCK_UNSUPPORTED: {
    cause: 'A policy with `block` was checked on a limiter whose store does not keep denials.',
    remedy:
      'Use the memory store or the Redis store, or implement it in yours and say so with `keepsPenalties`.',
  },
  SYNC_UNSUPPORTED: {
    cause: '`checkSync()` was called on a limiter whose store has to wait for the network.',
    remedy: 'Use `await limiter.check()`, or the memory store.',
  },
  RESERVE_UNSUPPORTED: {
    cause:
      '`reserve()` was called on a limiter whose store cannot settle reservations, or with a policy that charges no amount.',
    remedy: 'Use the memory store or the Redis store, and policies that count units.',
  },
  INVALID_RESERVATION: {
    cause:
      'A reservation was extended or settled that was denied or has ended, was extended too often, or a settlement that may have been applied was repeated minutes later.',
    remedy:
      'Look at `reservation.allowed` first, settle once with the total, and repeat a settlement that failed within five minutes.',
  },
  SETTLE_FAILED: {
    cause:
      'What a request of `rateLimit()` used could not be settled after its response: `settle` or `count` threw or returned something unusable, or the store could not be reached. The request counts as much as was reserved for it.',
    remedy:
      'Look at the underlying error (`error.cause`). Listen with `onSettleError`; without it the error is printed.',
  },
  LIMITER_CLOSED: {
    cause: 'The limiter was used after `close()`.',
    remedy: 'Close the limiter last, after the servers that use it have stopped.',
  },
  STORE_UNAVAILABLE: {
    cause:
      'The store failed to decide. The failure policy answered instead; the decision carries this error as its `cause`.',
    remedy: 'Look at the underlying error (`error.cause`) and at `limiter.health()`.',
  },
  STORE_MISCONFIGURED: {
    cause:
      'The store refuses the limiter: a wrong password or certificate, a missing permission, a version that is too old, or a disabled command. Waiting does not help.',
    remedy:
      'Correct the setting that the message names. `docs/redis.md` lists the permissions that the limiter needs.',
  },
  CLIENT_MISSING: {
    cause:
      'A Redis store was given a `url`, but no supported client package is installed, or a bundle does not contain it.',
    remedy:
      'Install one of `ioredis`, `iovalkey`, `redis` or `@redis/client`, or pass a connected `client` instead of a `url`.',
  },
  STATE_INVALID: {
    cause:
      'A key of the limiter in Redis holds a value that is not its state: another application uses the same names, or the value was damaged.',
    remedy: 'Give the limiter its own `prefix`. `limiter.forget()` removes the damaged value of one key.',
  },
  STORE_OVERLOADED: {
    cause: 'Too many decisions are waiting for the store. The failure policy answered instead, at once.',
    remedy: 'Find out why the store is slow, or spread the load over more processes or servers.',
  },
  DEADLINE_EXCEEDED: {
    cause: 'The store did not answer within `deadlineMs`. The failure policy answered instead.',
    remedy: 'Find out why the store is slow, or raise `deadlineMs` if it is merely far away.',
  },
  PROXY_NOT_TRUSTED: {
    cause:
      'A request carried `X-Forwarded-For` or `Forwarded`, but came from an address that is not in `trustedProxies`. The header was ignored. This is a warning, given once; nothing was thrown.',
    remedy:
      'If the address is your proxy, everyone behind it is counted as one client: add it to `trustedProxies`, as [client-address.md](client-address.md) shows. If it is a client that made the header up, there is nothing to do.',
  },
  UNKNOWN_PEER: {
    cause:
      '`rateLimit()` is configured to count clients by address, but has no way to know the address: a `fetch` handler has no socket.',
    remedy:
      'Say where the address comes from: `peer` in `spillgate/fetch`, `getConnInfo` in `spillgate/hono`, or `clientAddress: { trustedProxies: { hops: 1 } }` behind one proxy. Or count by something else: `key: { header: "x-api-key" }`.',
  },
  SHARED_ADDRESS: {
    cause:
      'A thousand requests named different clients in their headers, but nearly all of them were counted under the same address. This is a warning, given once; nothing was thrown.',
    remedy:
      'The message says why: a proxy that is not trusted, a wrong number of hops, or a different header than the configured one. See [client-address.md](client-address.md).',
  },
} as const;

export type ErrorCode = keyof typeof ERRORS;

/**
 * Who can do something about it: time (`transient`), an operator (`configuration`), the owner of a foreign value under
 * our name (`state`), or the programmer (`program`).
 */
export type ErrorClass = 'transient' | 'configuration' | 'state' | 'program';

/** The codes of errors that a store may have; every other one is a mistake of the program. */
export const STORE_ERROR_CLASSES: Partial<Record<ErrorCode, ErrorClass>> = {
  STORE_UNAVAILABLE: 'transient',
  STORE_OVERLOADED: 'transient',
  DEADLINE_EXCEEDED: 'transient',
  STORE_MISCONFIGURED: 'configuration',
  CLIENT_MISSING: 'configuration',
  STATE_INVALID: 'state',
};

export interface LimiterErrorOptions extends ErrorOptions {
  readonly node?: string | undefined;
}

/** Thrown for programming errors, and carried as `cause` by decisions that a store failed to make. */
export class LimiterError extends Error {
  override readonly name = 'LimiterError';
  readonly code: ErrorCode;
  /** The server of the store that is to blame, by its name in `limiter.health()`, where one is. */
  readonly node: string | undefined;

  constructor(code: ErrorCode, message: string, options?: LimiterErrorOptions) {
    super(message, options);
    this.code = code;
    this.node = options?.node;
  }

  get errorClass(): ErrorClass {
    return STORE_ERROR_CLASSES[this.code] ?? 'program';
  }
}

const SHOWN_LENGTH = 64;

/** Prints any value for an error message: short, on one line, and without running any code of the value's own. */
export function show(value: unknown): string {
  switch (typeof value) {
    case 'string': {
      const text = quote(value, SHOWN_LENGTH);
      return value.length > SHOWN_LENGTH ? `${text}... (${value.length} characters)` : text;
    }
    case 'bigint': {
      const digits = String(value);
      return digits.length > SHOWN_LENGTH ? `a bigint of ${digits.length} digits` : `${digits}n`;
    }
    case 'symbol':
      return 'a symbol';
    case 'function':
      return 'a function';
    case 'object':
      if (value === null) return 'null';
      return Array.isArray(value) ? `an array of ${value.length}` : 'an object';
    default:
      return Object.is(value, -0) ? '-0' : String(value);
  }
}

/** Characters that break a line, move the cursor or turn the direction of a text: JSON leaves them as they are. */
const UNSAFE = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;

/** A text in quotes that stays on its line: the first `length` characters, fewer where they have to be escaped. */
export function quote(text: string, length: number): string {
  let shown = '';
  for (const character of text.slice(0, length)) {
    const escaped = UNSAFE.test(character) ? escapeCode(character) : JSON.stringify(character).slice(1, -1);
    if (shown.length + escaped.length > length * 2) break;
    shown += escaped;
  }
  return `"${shown}"`;
}

function escapeCode(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
