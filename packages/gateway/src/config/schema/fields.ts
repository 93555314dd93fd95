// What a single setting can be. Every codec reads what a file says into what the program uses, and writes it back.
import { isIP } from 'node:net';
import { getCiphers } from 'node:tls';
import { formatDuration, LimiterError, parseDuration } from 'spillgate';
import { clientAddress } from 'spillgate/http';
import { z } from 'zod';
import { shown } from '../shown.ts';

/** A codec's last argument, as far as it is used here: where problems go. */
interface Report {
  readonly issues: { push(issue: { code: 'custom'; input: unknown; message: string }): unknown };
}

const DAY_MS = 86_400_000;

/** A length of time as text (`30s`); the program gets milliseconds. `0` is written with or without a unit. */
export function duration({ min = 0, max = DAY_MS }: { min?: number; max?: number } = {}) {
  return z
    .codec(z.union([z.string(), z.number()]), z.number(), {
      decode: (value, report) => {
        try {
          if (typeof value === 'number' && value !== 0) return refuse(report, value, withoutUnit(value));
          return parseDuration(value, { name: NAMELESS, minUs: min * 1000, maxUs: max * 1000 }) / 1000;
        } catch (failure) {
          return refuse(report, value, nameless(failure) + spelling(value));
        }
      },
      encode: (ms) => (ms === 0 ? '0s' : formatDuration(ms * 1000)),
    })
    .meta({ kind: 'duration', examples: ['30s'] });
}

const UNITS: ReadonlyMap<string, number> = new Map([
  ['', 1],
  ['ki', 2 ** 10],
  ['mi', 2 ** 20],
  ['gi', 2 ** 30],
]);

/** A number of bytes: `1048576`, `64KiB`, `10MiB`, `1GiB`. */
export function size({ min = 0, max = 2 ** 40 }: { min?: number; max?: number } = {}) {
  return z
    .codec(z.union([z.int(), z.string()]), z.number(), {
      decode: (value, report) => {
        const bytes = typeof value === 'number' ? value : bytesOf(value);
        if (bytes === undefined) {
          return refuse(report, value, `is ${shown(value)}; write a number of bytes, or 64KiB, 10MiB, 1GiB`);
        }
        return bytes >= min && bytes <= max
          ? bytes
          : refuse(report, value, `is ${shown(value)}; expected ${sizeText(min)} to ${sizeText(max)}`);
      },
      encode: sizeText,
    })
    .meta({ kind: 'size', examples: ['10MiB'] });
}

function sizeText(bytes: number): string | number {
  const unit = (['gi', 'mi', 'ki'] as const).find(
    (name) => bytes > 0 && bytes % (UNITS.get(name) ?? 1) === 0,
  );
  if (unit === undefined) return bytes;
  return `${bytes / (UNITS.get(unit) ?? 1)}${unit === 'ki' ? 'KiB' : unit === 'mi' ? 'MiB' : 'GiB'}`;
}

function bytesOf(text: string): number | undefined {
  const match = /^(\d{1,15})(ki|mi|gi|)b?$/i.exec(text);
  return match === null ? undefined : Number(match[1]) * (UNITS.get((match[2] ?? '').toLowerCase()) ?? 1);
}

/** Where to listen: `:8080`, `127.0.0.1:9090`, `[::1]:9090`. */
export function listenAddress() {
  return checkedText('address', (text) => {
    const match = /^(|\[[\da-fA-F:.]+\]|[\w.-]+):(\d{1,5})$/.exec(text);
    return match !== null && Number(match[2]) <= 65_535
      ? undefined
      : `is ${shown(text)}; expected a port, or an address and a port, such as ":8080" or "127.0.0.1:8080"`;
  });
}

/** A server to connect to: `redis-0:6379`, `[::1]:6379`. */
export function hostPort() {
  return checkedText('host:port', (text) => {
    const match = /^(?:\[[\da-fA-F:.]+\]|[\w.-]+):(\d{1,5})$/.exec(text);
    return match !== null && Number(match[1]) >= 1 && Number(match[1]) <= 65_535
      ? undefined
      : `is ${shown(text)}; expected host:port, such as "redis-0:6379"`;
  });
}

/** An http or https address. `originOnly`: nothing after the port, because paths come from the request. */
export function httpUrl({ originOnly = false }: { originOnly?: boolean } = {}) {
  return checkedText('URL', (text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    if (url === undefined || !/^https?:$/.test(url.protocol) || !/^https?:\/\//i.test(text)) {
      return `is ${shown(text)}; expected a URL such as "http://service:8080"`;
    }
    if (url.username !== '' || url.password !== '') return 'contains a user name or a password; remove it';
    if (/[\s\\]/.test(text)) return `is ${shown(text)}; a URL cannot contain spaces or backslashes`;
    return originOnly && (url.pathname !== '/' || url.search !== '' || url.hash !== '')
      ? `is ${shown(text)}; remove what follows the host, because the path comes from the request`
      : undefined;
  });
}

/**
 * A Redis server as its clients name it: `redis://user:password@host:6379/0`, or `rediss://` for TLS. Never shown: it
 * may be a password.
 */
export function redisUrl() {
  return checkedText('URL', (text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    const isRedis = url !== undefined && /^rediss?:$/.test(url.protocol) && url.hostname !== '';
    return isRedis && /^\/?\d{0,5}$/.test(url.pathname) && url.search === '' && url.hash === ''
      ? undefined
      : 'is not the URL of a Redis server; expected redis://host:port or rediss://host:port, with /1 behind it for database 1';
  });
}

export function headerName() {
  return checkedText('header name', (text) =>
    /^[\w!#$%&'*+.^`|~-]{1,128}$/.test(text)
      ? undefined
      : `is ${shown(text)}; expected the name of a header, such as "X-Tenant-Id"`,
  );
}

export function cookieName() {
  return checkedText('cookie name', (text) =>
    /^[\w!#$%&'*+.^`|~-]{1,128}$/.test(text)
      ? undefined
      : `is ${shown(text)}; expected the name of a cookie, such as "session"`,
  );
}

/** A cipher suite that this Node.js knows. */
export function cipherSuite() {
  return checkedText('cipher suite', (text) =>
    KNOWN_CIPHERS.has(text.toLowerCase())
      ? undefined
      : `is ${shown(text)}; expected a cipher suite that OpenSSL knows, such as "ECDHE-RSA-AES128-GCM-SHA256"`,
  );
}

const KNOWN_CIPHERS: ReadonlySet<string> = new Set(getCiphers());

/** An address or a range of addresses. */
export function network() {
  return checkedText('address or range', (text) => {
    const [address = '', bits, rest] = text.split('/');
    const width = isIP(address) === 4 ? 32 : isIP(address) === 6 ? 128 : undefined;
    const valid =
      width !== undefined &&
      rest === undefined &&
      (bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= width));
    return valid ? undefined : `is ${shown(text)}; expected an address or a range, such as "10.0.0.0/8"`;
  });
}

/** What `clientAddress()` of the library trusts: ranges and presets. */
export function trustedProxy() {
  return checkedText('range or preset', (text) => {
    try {
      clientAddress({ trustedProxies: text });
      return undefined;
    } catch (failure) {
      return nameless(failure).replace('{ hops: n }', 'trusted_hops');
    }
  });
}

export function plainText({ max = 1024 }: { max?: number } = {}) {
  return z.string().min(1).max(max);
}

/** A file that is read later, when it is needed. */
export function filePath() {
  return plainText({ max: 4096 }).meta({ kind: 'file' });
}

/** Never shown, and also read from the file that `..._FILE` names. */
export function secret() {
  return plainText().meta({ kind: 'secret', secret: true });
}

export function list<Element extends z.ZodType>(element: Element, max = 1000) {
  return z.array(element).max(max);
}

/** A text that `complaint` accepts by answering nothing; what it answers continues "the setting ...". */
function checkedText(kind: string, complaint: (text: string) => string | undefined) {
  return z
    .string()
    .superRefine((value, context) => {
      const message = complaint(value);
      if (message !== undefined) context.addIssue({ code: 'custom', message });
    })
    .meta({ kind });
}

function refuse(report: Report, input: unknown, message: string): never {
  report.issues.push({ code: 'custom', input, message });
  return z.NEVER;
}

const NAMELESS = 'it';

/** The library's messages begin with the name of the argument; ours with the path of the setting. */
function nameless(failure: unknown): string {
  if (!(failure instanceof LimiterError)) throw failure;
  return failure.message
    .replace(/^\S+ /, '')
    .replace(/, or as a number of milliseconds/, '')
    .replace(/\.$/, '');
}

function withoutUnit(value: number): string {
  return `is ${value}, a number without a unit; write "${value}s" for seconds or "${value}ms" for milliseconds`;
}

const WORDS: ReadonlyMap<string, number> = new Map([
  ['d', DAY_MS],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
]);

/** `1.5s`, `2 minutes`: nearly right, so say how it is written. */
function spelling(value: string | number): string {
  const match =
    /^(\d{1,6}(?:\.\d{1,3})?)\s*(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?)$/i.exec(
      String(value),
    );
  if (match === null) return '';
  const unit = (match[2] ?? '').toLowerCase();
  const short = unit.startsWith('mil') ? 'ms' : unit === 'ms' ? 'ms' : unit.charAt(0);
  const us = Math.round(Number(match[1]) * (WORDS.get(short) ?? 0) * 1000);
  const written = formatDuration(us);
  return us < 1000 || written === value ? '' : `: "${written}"`;
}

export type DeepReadonly<Value> = Value extends object
  ? { readonly [Name in keyof Value]: DeepReadonly<Value[Name]> }
  : Value;
