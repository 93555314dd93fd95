import { createHash } from 'node:crypto';
import { SENSITIVE_HEADERS, type HeaderFilterConfig, type RequestField } from '../config/schema/external.ts';
import type { LimitsQuestion } from './limits-source.ts';
import type { ServiceRequest } from './service/service.ts';

/** Different with every request and never a reason for other limits: an answer could not be used twice. */
const NEVER_SENT = [
  'content-length',
  'date',
  'traceparent',
  'tracestate',
  'x-request-id',
  'connection',
  'keep-alive',
];
const MAX_REMEMBERED_NAMES = 1024;
const MAX_PLAIN_LENGTH = 256;
const HASH_MARK = '~';

/** Decides what of a request the service sees. All of that, and nothing else, tells one answer from another. */
export class QuestionReader {
  private readonly sends: Readonly<Record<RequestField, boolean>>;
  private readonly headers: HeaderFilter;

  constructor(filter: HeaderFilterConfig, fields: readonly RequestField[]) {
    const { allow_list: allow, deny_list: deny } = filter;
    this.headers = allow.length > 0 ? new AllowList(allow) : new DenyList(deny ?? []);
    this.sends = {
      method: fields.includes('method'),
      path: fields.includes('path'),
      headers: fields.includes('headers') && (allow.length > 0 || deny !== undefined),
    };
  }

  /** A text that two questions share only if they send the same. It begins with a digit or with `~`. */
  identityOf(question: LimitsQuestion): string {
    const { key } = question;
    const method = this.sends.method ? question.method : '';
    const path = this.sends.path ? question.path : '';
    const headers = this.sends.headers ? this.headers.identityOf(question.headers.raw) : '';
    const identity = `${key.length}:${key}${method.length}:${method}${path.length}:${path}${headers}`;
    return bounded(identity);
  }

  requestOf(question: LimitsQuestion): ServiceRequest {
    return {
      key: question.key,
      headers: this.sends.headers ? canonical(this.headers.sentOf(question.headers.raw)) : {},
      method: this.sends.method ? question.method : '',
      path: this.sends.path ? question.path : '',
    };
  }
}

/** Names and values by turns, as they arrived. */
type RawHeaders = readonly string[];

interface HeaderFilter {
  /** The same for the same headers, in whatever order and spelling of their names. */
  identityOf(raw: RawHeaders): string;
  sentOf(raw: RawHeaders): readonly (readonly [name: string, value: string])[];
}

const NOT_ALLOWED = -1;

/** Runs with every request, so it makes nothing but the text. */
class AllowList implements HeaderFilter {
  private readonly allowed: readonly string[];
  /** Names as clients write them, and where they are in the list. */
  private readonly places = new Map<string, number>();
  private readonly values: (string | undefined)[];

  constructor(allowed: readonly string[]) {
    const lower = allowed.map((name) => name.toLowerCase());
    this.allowed = allowed.filter((_, at) => lower.indexOf(lower[at] ?? '') === at);
    this.values = this.allowed.map(() => undefined);
  }

  identityOf(raw: RawHeaders): string {
    this.read(raw);
    let identity = '';
    for (const value of this.values) identity += value === undefined ? '-' : `${value.length}:${value}`;
    return identity;
  }

  sentOf(raw: RawHeaders): readonly (readonly [string, string])[] {
    this.read(raw);
    return this.allowed.flatMap((name, at) => {
      const value = this.values[at];
      return value === undefined ? [] : [[name, value] as const];
    });
  }

  private read(raw: RawHeaders): void {
    this.values.fill(undefined);
    for (let at = 0; at + 1 < raw.length; at += 2) {
      const place = this.placeOf(raw[at] ?? '');
      if (place === NOT_ALLOWED) continue;
      const before = this.values[place];
      const value = raw[at + 1] ?? '';
      this.values[place] = before === undefined ? value : `${before}, ${value}`;
    }
  }

  private placeOf(given: string): number {
    const known = this.places.get(given);
    if (known !== undefined) return known;
    const lower = given.toLowerCase();
    const place = this.allowed.findIndex((name) => name.toLowerCase() === lower);
    if (this.places.size < MAX_REMEMBERED_NAMES) this.places.set(given, place);
    return place;
  }
}

class DenyList implements HeaderFilter {
  private readonly denied: ReadonlySet<string>;

  constructor(denied: readonly string[]) {
    this.denied = new Set([...denied, ...SENSITIVE_HEADERS, ...NEVER_SENT].map((name) => name.toLowerCase()));
  }

  identityOf(raw: RawHeaders): string {
    return this.sentOf(raw)
      .map(([name, value]) => `${name.length}:${name}${value.length}:${value}`)
      .join('');
  }

  sentOf(raw: RawHeaders): readonly (readonly [string, string])[] {
    const found = new Map<string, string>();
    for (let at = 0; at + 1 < raw.length; at += 2) {
      const name = (raw[at] ?? '').toLowerCase();
      if (this.denied.has(name)) continue;
      const before = found.get(name);
      const value = raw[at + 1] ?? '';
      found.set(name, before === undefined ? value : `${before}, ${value}`);
    }
    return [...found].toSorted(([one], [other]) => (one < other ? -1 : 1));
  }
}

/** One spelling, whichever filter let them out and however a client wrote them: `X-Tenant-Id`. */
function canonical(headers: readonly (readonly [name: string, value: string])[]): Record<string, string> {
  return Object.fromEntries(headers.map(([name, value]) => [canonicalName(name), value]));
}

function canonicalName(name: string): string {
  return name.toLowerCase().replaceAll(/(?<![^-])[a-z]/g, (letter) => letter.toUpperCase());
}

/** Longer texts are kept as their hash, so that no client decides how much memory an entry takes. */
export function bounded(text: string): string {
  return text.length <= MAX_PLAIN_LENGTH && !text.startsWith(HASH_MARK) ? text : HASH_MARK + sha256(text);
}

export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
