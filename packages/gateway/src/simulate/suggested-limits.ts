import { createLimiter, memoryStore, tokenBucket, type Limiter, type Policy } from 'spillgate';
import { clientAddress } from 'spillgate/http';
import type { LoggedRequest } from './logged-request.ts';
import { readInOrder, type LogsToRead } from './replay-log.ts';
import type { LogReading } from './log-source.ts';

export interface SuggestOptions extends LogsToRead {
  /** Count by this header instead of the client's address. */
  readonly header?: string | undefined;
}

/** A limit that most clients would never have met. */
export interface SuggestedLimit {
  /** The share of clients, in percent, whose busiest minute it leaves room for. */
  readonly percentile: number;
  /** Requests per minute, and at once. */
  readonly average: number;
  readonly burst: number;
  readonly denied: number;
  readonly deniedClients: number;
  /** Those that it would have denied most often, up to five. */
  readonly mostDenied: readonly { readonly client: string; readonly denied: number }[];
}

export interface Suggestions {
  readonly reading: LogReading;
  readonly clients: number;
  /** There were more clients than are remembered: these are the first. */
  readonly isPartial: boolean;
  /** The share of requests that do not say who asks. */
  readonly withoutKey: number;
  readonly limits: readonly SuggestedLimit[];
}

const PERCENTILES = [90, 95, 99, 99.9, 100];
const MINUTE_MS = 60_000;
/** Long enough for a page with everything on it. */
const BURST_MS = 10_000;
const MAX_CLIENTS = 500_000;
const SHOWN_CLIENTS = 5;

/**
 * Proposes limits from what clients really did. Reads the logs twice: first how busy each client was at most, then what
 * each limit would have denied. Rejects with `UnreadableLog`.
 */
export async function suggestLimits(options: SuggestOptions): Promise<Suggestions> {
  const keyOf = keyReaderFor(options.header);
  const peaks = new ClientPeaks();
  let withoutKey = 0;
  const reading = await readInOrder(options, (requests) => {
    for (const request of requests) {
      const key = keyOf(request);
      if (key === undefined) withoutKey += 1;
      else peaks.add(key, request.atMs);
    }
  });
  const candidates = peaks.candidates().map((candidate) => new CandidateLimit(candidate));
  await readInOrder({ ...options, onProgress: undefined }, (requests) => {
    for (const request of requests) {
      const key = keyOf(request);
      if (key === undefined) continue;
      for (const candidate of candidates) candidate.check(key, request.atMs);
    }
  });
  const limits = candidates.map((candidate) => candidate.result());
  return { reading, clients: peaks.size, isPartial: peaks.isPartial, withoutKey, limits };
}

function keyReaderFor(header: string | undefined): (request: LoggedRequest) => string | undefined {
  if (header === undefined) {
    const clientOf = clientAddress();
    return ({ client }) => clientOf({ peer: client, headerLines: () => [], isDirect: true }).key;
  }
  const name = header.toLowerCase();
  return ({ headers }) => {
    const at = headers.findIndex((text, place) => place % 2 === 0 && text === name);
    const value = at === -1 ? '' : headers[at + 1];
    return value === '' ? undefined : value;
  };
}

/** The requests of the present span of time, and the most that one ever had. */
interface Span {
  from: number;
  requests: number;
  most: number;
}

interface ClientUse {
  readonly minute: Span;
  readonly moment: Span;
}

/** How busy each client was in its busiest minute and its busiest ten seconds. */
class ClientPeaks {
  isPartial = false;
  private readonly clients = new Map<string, ClientUse>();

  get size(): number {
    return this.clients.size;
  }

  add(key: string, atMs: number): void {
    let use = this.clients.get(key);
    if (use === undefined) {
      if (this.clients.size >= MAX_CLIENTS) {
        this.isPartial = true;
        return;
      }
      use = { minute: { from: 0, requests: 0, most: 0 }, moment: { from: 0, requests: 0, most: 0 } };
      this.clients.set(key, use);
    }
    count(use.minute, Math.floor(atMs / MINUTE_MS));
    count(use.moment, Math.floor(atMs / BURST_MS));
  }

  /** One per percentile; where two are the same, the first. */
  candidates(): readonly Pick<SuggestedLimit, 'percentile' | 'average' | 'burst'>[] {
    const minutes = [...this.clients.values()].map(({ minute }) => minute.most).toSorted((a, b) => a - b);
    const moments = [...this.clients.values()].map(({ moment }) => moment.most).toSorted((a, b) => a - b);
    const found = PERCENTILES.map((percentile) => ({
      percentile,
      average: roundedUp(percentileOf(minutes, percentile)),
      burst: roundedUp(percentileOf(moments, percentile)),
    }));
    return minutes.length === 0
      ? []
      : found.filter(
          ({ average, burst }, at) =>
            at === found.findIndex((other) => other.average === average && other.burst === burst),
        );
  }
}

function count(span: Span, from: number): void {
  if (span.from !== from) {
    span.from = from;
    span.requests = 0;
  }
  span.requests += 1;
  if (span.requests > span.most) span.most = span.requests;
}

function percentileOf(sorted: readonly number[], percentile: number): number {
  return sorted[Math.min(sorted.length - 1, Math.ceil((sorted.length * percentile) / 100) - 1)] ?? 1;
}

/** To two digits: nobody wants a limit of 1,237. */
function roundedUp(number: number): number {
  const unit = Math.max(1, 10 ** (Math.floor(Math.log10(Math.max(1, number))) - 1));
  return Math.ceil(number / unit) * unit;
}

/** A limit on trial. */
class CandidateLimit {
  private readonly candidate: Pick<SuggestedLimit, 'percentile' | 'average' | 'burst'>;
  private readonly policy: Policy;
  private readonly limiter: Limiter;
  private readonly deniedClients = new Map<string, number>();
  private nowUs = 0;
  private denied = 0;

  constructor(candidate: Pick<SuggestedLimit, 'percentile' | 'average' | 'burst'>) {
    const { average, burst } = candidate;
    const clock = (): number => this.nowUs;
    this.candidate = candidate;
    this.policy = tokenBucket({ name: 'suggested', average, burst, period: '1m' });
    this.limiter = createLimiter({ clock, store: memoryStore({ clock, maxKeys: MAX_CLIENTS }) });
  }

  check(key: string, atMs: number): void {
    this.nowUs = Math.round(atMs * 1000);
    if (this.limiter.checkSync(this.policy.for(key)).allowed) return;
    this.denied += 1;
    const times = this.deniedClients.get(key) ?? 0;
    if (times > 0 || this.deniedClients.size < MAX_CLIENTS) this.deniedClients.set(key, times + 1);
  }

  result(): SuggestedLimit {
    const mostDenied = [...this.deniedClients]
      .toSorted(([, one], [, other]) => other - one)
      .slice(0, SHOWN_CLIENTS)
      .map(([client, denied]) => ({ client, denied }));
    return { ...this.candidate, denied: this.denied, deniedClients: this.deniedClients.size, mostDenied };
  }
}
