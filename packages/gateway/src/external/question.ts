import { createHash } from 'node:crypto';
import { SENSITIVE_HEADERS, type HeaderFilterConfig, type RequestField } from '../config/schema/external.ts';
import type { LimitsQuestion } from './limits-source.ts';
import type { LimitsRequest } from './service/service.ts';

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
/** Longer identities are kept as their hash, so that no client decides how much memory an entry takes. */
const MAX_PLAIN_IDENTITY = 256;
const HASH_MARK = '~';

interface SentHeader {
  readonly name: string;
  readonly value: string;
}

/** Decides what of a request the service sees. All of that, and nothing else, tells one answer from another. */
export class QuestionReader {
  private readonly sends: Readonly<Record<RequestField, boolean>>;
  private readonly allowed: ReadonlyMap<string, string>;
  private readonly denied: ReadonlySet<string> | undefined;
  /** Names as clients write them, and what they are sent as; undefined is not sent. */
  private readonly names = new Map<string, string | undefined>();

  constructor(filter: HeaderFilterConfig, fields: readonly RequestField[]) {
    const { allow_list: allow, deny_list: deny } = filter;
    this.allowed = new Map(allow.map((header) => [header.toLowerCase(), header]));
    this.denied =
      allow.length > 0 || deny === undefined
        ? undefined
        : new Set([...deny, ...SENSITIVE_HEADERS, ...NEVER_SENT].map((header) => header.toLowerCase()));
    this.sends = {
      method: fields.includes('method'),
      path: fields.includes('path'),
      headers: fields.includes('headers') && (allow.length > 0 || this.denied !== undefined),
    };
  }

  /** A text that two questions share only if they send the same. It begins with a digit or with `~`. */
  identityOf(question: LimitsQuestion): string {
    const method = this.sends.method ? question.method : '';
    const path = this.sends.path ? question.path : '';
    let identity = `${question.key.length}:${question.key}${method.length}:${method}${path.length}:${path}`;
    if (this.sends.headers) {
      for (const { name, value } of this.headersOf(question)) {
        identity += `${name.length}:${name}${value.length}:${value}`;
      }
    }
    return identity.length <= MAX_PLAIN_IDENTITY ? identity : HASH_MARK + sha256(identity);
  }

  requestOf(question: LimitsQuestion): LimitsRequest {
    const headers = this.sends.headers ? this.headersOf(question) : [];
    return {
      key: question.key,
      headers: Object.fromEntries(headers.map(({ name, value }) => [name, value])),
      method: this.sends.method ? question.method : '',
      path: this.sends.path ? question.path : '',
    };
  }

  /** One per name, by name: the order in which a client sends them makes no other question. */
  private headersOf({ headers: { raw } }: LimitsQuestion): readonly SentHeader[] {
    const found = new Map<string, string>();
    for (let at = 0; at + 1 < raw.length; at += 2) {
      const name = this.sentName(raw[at] ?? '');
      const value = raw[at + 1] ?? '';
      if (name === undefined) continue;
      const before = found.get(name);
      found.set(name, before === undefined ? value : `${before}, ${value}`);
    }
    const sent = [...found].map(([name, value]) => ({ name, value }));
    return sent.length < 2 ? sent : sent.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  }

  private sentName(given: string): string | undefined {
    const known = this.names.get(given);
    if (known !== undefined || this.names.has(given)) return known;
    const lower = given.toLowerCase();
    const name =
      this.denied === undefined ? this.allowed.get(lower) : this.denied.has(lower) ? undefined : lower;
    if (this.names.size < MAX_REMEMBERED_NAMES) this.names.set(given, name);
    return name;
  }
}

export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
