import { serviceAt, type ClientTls, type ResolveAll } from '../../http-client/index.ts';
import type { Log } from '../../telemetry/log.ts';
import { parseKeySet, type KeySet, type KeySource } from './key-set.ts';

export interface FetchedKeysOptions {
  /** The text of a JWK Set. Rejects when the signal says so. */
  readonly fetch: (signal: AbortSignal) => Promise<string>;
  readonly refreshMs: number;
  readonly cooldownMs: number;
  readonly waitMs: number;
  readonly timeoutMs: number;
  readonly maxStaleMs: number;
  readonly log: Log;
  readonly observe: (outcome: KeyFetchOutcome) => void;
  /** Milliseconds of a clock that only goes forward. Default: `performance.now()`. */
  readonly now?: (() => number) | undefined;
  /** Spreads retries: 0 to 1. */
  readonly random?: (() => number) | undefined;
}

export type KeyFetchOutcome = 'changed' | 'unchanged' | 'failed';

const FIRST_RETRY_MS = 1000;
const MAX_RETRY_MS = 60_000;

/**
 * Keys from a URL: fetched at once, again and again, and when a token names one that is not there. They stay in use
 * while the URL cannot be asked, for a time. One fetch is under way at most, and no request waits long for it.
 */
export class FetchedKeys implements KeySource {
  private readonly options: FetchedKeysOptions;
  private readonly now: () => number;
  private keys: KeySet | undefined;
  private text: string | undefined;
  private fetchedAtMs = -Infinity;
  private askedAtMs = -Infinity;
  private failures = 0;
  private underWay: Promise<void> | undefined;
  private timer: NodeJS.Timeout | undefined;
  private readonly closing = new AbortController();

  constructor(options: FetchedKeysOptions) {
    this.options = options;
    this.now = options.now ?? (() => performance.now());
    void this.fetch();
  }

  current(): KeySet | undefined {
    return this.now() - this.fetchedAtMs <= this.options.maxStaleMs ? this.keys : undefined;
  }

  newer(than: KeySet | undefined): KeySet | undefined | Promise<KeySet | undefined> {
    const known = this.current();
    if (known !== than) return known;
    if (this.underWay !== undefined) return this.within(this.underWay, than);
    // Else anybody could have us ask the issuer as often as they like, by making up names of keys.
    if (this.now() - this.askedAtMs < this.options.cooldownMs) return undefined;
    return this.within(this.fetch(), than);
  }

  close(): void {
    this.closing.abort(new Error('The configuration is no longer in use.'));
    clearTimeout(this.timer);
  }

  private async within(fetch: Promise<void>, than: KeySet | undefined): Promise<KeySet | undefined> {
    let timer: NodeJS.Timeout | undefined;
    const tooLong = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, this.options.waitMs);
    });
    await Promise.race([fetch, tooLong]);
    clearTimeout(timer);
    const known = this.current();
    return known === than ? undefined : known;
  }

  /** Never rejects. */
  private async fetch(): Promise<void> {
    clearTimeout(this.timer);
    this.askedAtMs = this.now();
    this.underWay ??= this.attempt().finally(() => {
      this.underWay = undefined;
      this.schedule();
    });
    return this.underWay;
  }

  private async attempt(): Promise<void> {
    const { fetch, timeoutMs, observe, log } = this.options;
    try {
      const text = await fetch(AbortSignal.any([this.closing.signal, AbortSignal.timeout(timeoutMs)]));
      const changed = text !== this.text;
      // The same object for the same keys: what was checked with them stays checked.
      if (changed) this.keys = parseKeySet(text);
      this.text = text;
      this.fetchedAtMs = this.now();
      this.failures = 0;
      observe(changed ? 'changed' : 'unchanged');
      if (changed) log.info({ keys: this.keys?.size }, 'the keys for tokens were fetched');
    } catch (failure) {
      if (this.closing.signal.aborted) return;
      this.failures += 1;
      observe('failed');
      const problem = failure instanceof Error ? failure.message : String(failure);
      const inUse = this.current()?.size ?? 0;
      log.warn({ problem, keys: inUse, failures: this.failures }, 'the keys for tokens cannot be fetched');
    }
  }

  private schedule(): void {
    if (this.closing.signal.aborted) return;
    const { refreshMs, random = Math.random } = this.options;
    const backoff = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(this.failures - 1, 16));
    // Full jitter from half of it on: gateways that started together do not ask together for ever.
    const waitMs = this.failures === 0 ? refreshMs : Math.min(refreshMs, backoff * (0.5 + random() / 2));
    this.timer = setTimeout(() => void this.fetch(), waitMs).unref();
  }
}

interface KeySetRequest {
  readonly url: string;
  readonly timeoutMs: number;
  readonly tls: ClientTls;
  /** Which addresses must not be dialled. */
  readonly refusesAddress: (address: string) => boolean;
  /** Left out: the system's resolver. */
  readonly resolve?: ResolveAll | undefined;
}

const MAX_BYTES = 256 * 1024;

/** Gets the text of a JWK Set: one connection, one answer, no redirects, since they lead where nobody has checked. */
export async function fetchKeySet(request: KeySetRequest, signal: AbortSignal): Promise<string> {
  const { url, ...dialling } = request;
  const service = serviceAt(url, { ...dialling, maxConnections: 1 });
  try {
    const response = await service.fetch({
      method: 'GET',
      headers: ['accept', 'application/jwk-set+json, application/json'],
      maxBodyBytes: (status) => (status === 200 ? MAX_BYTES : 0),
      signal,
    });
    if (response.status !== 200) throw new Error(`the URL answered ${response.status}`);
    if (response.truncated) throw new Error(`the answer has more than ${MAX_BYTES} bytes`);
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(response.body);
  } finally {
    await service.close();
  }
}
