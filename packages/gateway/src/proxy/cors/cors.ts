// Cross-origin resource sharing (https://fetch.spec.whatwg.org/#http-cors-protocol): what pages of other origins may do
// and read. It protects pages from each other, not the service: whoever is not a browser ignores it.
import { limitHeaderNames } from 'spillgate/internal';
import type { Config } from '../../config/config.ts';
import type { CorsConfig } from '../../config/schema/cors.ts';
import type { RequestFacts } from '../../rules/request-facts.ts';
import type { AnswerText, GatewayErrorCode } from '../gateway-errors.ts';

/** What becomes of a preflight. */
export type Preflight =
  | { readonly outcome: 'answer'; readonly answer: AnswerText }
  | { readonly outcome: 'refuse'; readonly code: GatewayErrorCode }
  /** To the backend without being counted, by the rule that will hold for the request it announces. */
  | { readonly outcome: 'pass'; readonly facts: RequestFacts };

const METHOD = /^[A-Z][A-Z-]{0,31}$/;
const HEADER_NAMES = /^[\w!#$%&'*+.^`|~-]+(?:[\t ]*,[\t ]*[\w!#$%&'*+.^`|~-]+)*$/;
const HEADER_PREFIX = 'access-control-';

export class CorsPolicy {
  private readonly config: CorsConfig;
  private readonly exposed: string;
  private readonly everyOrigin: boolean;
  private readonly origins: ReadonlySet<string>;
  /** `https://*.example.com` as what comes before the name and what ends it. */
  private readonly suffixes: readonly { readonly scheme: string; readonly rest: string }[];
  private readonly methods: ReadonlySet<string>;
  /** In lower case; undefined for every header. */
  private readonly headers: ReadonlySet<string> | undefined;

  constructor(config: CorsConfig, { rate_limit, server }: Config) {
    const { allowed_origins: origins, allowed_headers: headers, exposed_headers: exposed } = config;
    const ownHeaders = [...limitHeaderNames(rate_limit.headers), server.request_id_header];
    this.config = config;
    this.exposed = [...new Set([...ownHeaders, ...exposed])].join(', ');
    this.everyOrigin = origins.includes('*');
    this.origins = new Set(origins.filter((origin) => !origin.includes('*')));
    this.suffixes = origins.flatMap((origin) => {
      const [scheme = '', rest] = origin.split('*');
      return rest === undefined || rest === '' ? [] : [{ scheme, rest }];
    });
    this.methods = new Set(config.allowed_methods);
    this.headers = headers.includes('*') ? undefined : new Set(headers.map((name) => name.toLowerCase()));
  }

  /** What to do with a request, if it is a preflight. */
  preflight(facts: RequestFacts): Preflight | undefined {
    if (facts.method !== 'OPTIONS') return undefined;
    const origin = single(facts.headers.lines('origin'));
    const method = single(facts.headers.lines('access-control-request-method'));
    if (origin === undefined || method === undefined || !METHOD.test(method)) return undefined;
    if (!this.allows(origin)) return { outcome: 'refuse', code: 'CORS_NOT_ALLOWED' };
    if (this.config.handled_by === 'backend')
      return { outcome: 'pass', facts: { ...facts, method, uncounted: true } };
    return this.answer(facts, origin, method);
  }

  private answer(facts: RequestFacts, origin: string, method: string): Preflight {
    const asked = facts.headers.lines('access-control-request-headers').join(', ');
    const allowed = asked === '' || (HEADER_NAMES.test(asked) && this.allowsHeaders(asked));
    if (!this.methods.has(method) || !allowed) return { outcome: 'refuse', code: 'CORS_NOT_ALLOWED' };
    const headers = [
      ...this.originHeaders(origin),
      'Access-Control-Allow-Methods',
      this.config.allowed_methods.join(', '),
      'Access-Control-Max-Age',
      String(Math.floor(this.config.max_age / 1000)),
      'Vary',
      'Access-Control-Request-Method, Access-Control-Request-Headers',
    ];
    // Not `*`: browsers take that for every header but `Authorization`, and for nothing with credentials.
    if (asked !== '') headers.push('Access-Control-Allow-Headers', asked);
    return { outcome: 'answer', answer: { status: 204, headers, body: '' } };
  }

  /** Adds what lets a page read an answer of our own. `rawHeaders` are those of the request. */
  addToOwnAnswer(answer: string[], rawHeaders: readonly string[]): void {
    if (answer.some((name, at) => at % 2 === 0 && isCorsHeader(name))) return;
    answer.push(...this.responseHeaders(originIn(rawHeaders)));
  }

  /** The headers of a backend's response as the client gets them. */
  responseFromBackend(headers: string[], rawHeaders: readonly string[]): string[] {
    if (this.config.handled_by === 'backend') return this.withExposed(headers);
    const kept: string[] = [];
    for (let at = 0; at < headers.length; at += 2) {
      if (!isCorsHeader(headers[at])) kept.push(headers[at] ?? '', headers[at + 1] ?? '');
    }
    kept.push(...this.responseHeaders(originIn(rawHeaders)));
    return kept;
  }

  /** A backend that lets a page read its response does not know the headers that we add to it. */
  private withExposed(headers: string[]): string[] {
    const isShared = headers.some(
      (name, at) => at % 2 === 0 && name.toLowerCase() === 'access-control-allow-origin',
    );
    // Lines of one list: browsers join them.
    if (isShared) headers.push('Access-Control-Expose-Headers', this.exposed);
    return headers;
  }

  private responseHeaders(origin: string | undefined): readonly string[] {
    if (origin === undefined || !this.allows(origin)) return this.everyOrigin ? [] : VARY_BY_ORIGIN;
    return [...this.originHeaders(origin), 'Access-Control-Expose-Headers', this.exposed];
  }

  private originHeaders(origin: string): readonly string[] {
    if (this.everyOrigin) return ['Access-Control-Allow-Origin', '*'];
    const credentials = this.config.allow_credentials ? ['Access-Control-Allow-Credentials', 'true'] : [];
    return ['Access-Control-Allow-Origin', origin, ...credentials, ...VARY_BY_ORIGIN];
  }

  private allows(origin: string): boolean {
    if (this.everyOrigin || this.origins.has(origin)) return true;
    return this.suffixes.some(({ scheme, rest }) => {
      const name = origin.slice(scheme.length, -rest.length);
      return origin.startsWith(scheme) && origin.endsWith(rest) && SUBDOMAIN.test(name);
    });
  }

  private allowsHeaders(asked: string): boolean {
    const { headers } = this;
    if (headers === undefined) return true;
    return asked
      .toLowerCase()
      .split(',')
      .every((name) => headers.has(name.trim()));
  }
}

const VARY_BY_ORIGIN: readonly string[] = ['Vary', 'Origin'];
/** Of `https://a.b.example.com` under `https://*.example.com`: `a.b`. */
const SUBDOMAIN = /^[a-z\d](?:[a-z\d.-]*[a-z\d])?$/;

function isCorsHeader(name = ''): boolean {
  return name.length > HEADER_PREFIX.length && name.toLowerCase().startsWith(HEADER_PREFIX);
}

function originIn(rawHeaders: readonly string[]): string | undefined {
  const lines: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() === 'origin') lines.push(rawHeaders[at + 1] ?? '');
  }
  return single(lines);
}

function single(lines: readonly string[]): string | undefined {
  return lines.length === 1 ? lines[0] : undefined;
}
