import type { CacheHeaders } from '../external/freshness.ts';

/** What the service is asked. */
export interface AuthorizationQuestion {
  readonly id: string;
  readonly method: string;
  readonly scheme: string;
  readonly host: string;
  /** Path and query. */
  readonly target: string;
  readonly client: string | undefined;
  /** Names in lower case and values, by turns: those that the service may see. */
  readonly headers: readonly string[];
}

export type AuthorizationVerdict =
  /** `headers` are for the backend, names and values by turns. */
  | { readonly allowed: true; readonly headers: readonly string[] }
  /** `headers` are for the client. An empty body: the gateway's own. */
  | {
      readonly allowed: false;
      readonly status: number;
      readonly headers: readonly string[];
      readonly body: string;
    };

export interface AuthorizationAnswer {
  readonly verdict: AuthorizationVerdict;
  /** Undefined where the protocol has none. */
  readonly cacheHeaders: CacheHeaders | undefined;
}

/** Asks the service over one protocol. */
export interface AuthorizationService {
  /** Rejects if there is no answer that can be used. */
  ask(question: AuthorizationQuestion, signal: AbortSignal): Promise<AuthorizationAnswer>;
  close(): void;
}

const NAME = /^[\da-z!#$%&'*+.^_`|~-]+$/i;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Of foreign headers those that are wanted, names in lower case. Throws for one that cannot be sent. */
export function wantedHeaders(headers: readonly string[], wanted: ReadonlySet<string>): readonly string[] {
  const kept: string[] = [];
  for (let at = 0; at < headers.length; at += 2) {
    const name = (headers[at] ?? '').toLowerCase();
    const value = headers[at + 1] ?? '';
    if (!wanted.has(name)) continue;
    if (!NAME.test(name) || !VALUE.test(value)) throw new Error(`the service sent a malformed header`);
    kept.push(name, value.trim());
  }
  return kept;
}
