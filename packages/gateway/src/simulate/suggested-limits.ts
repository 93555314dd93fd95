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
  /** The share of clients, in percent, that it would never have denied. */
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
const MAX_CLIENTS = 500_000;
const SHOWN_CLIENTS = 5;

/**
 * Proposes limits from what clients really did. Reads the logs three times: how busy each client was at most, which
 * burst it needs at such an average, and what each limit would have denied. Rejects with `UnreadableLog`.
 */
export async function suggestLimits(options: SuggestOptions): Promise<Suggestions> {
  const keyOf = keyReaderFor(options.header);
  const eachOf = async (
    logs: LogsToRead,
    use: (key: string | undefined, atMs: number) => void,
  ): Promise<LogReading> =>
    readInOrder(logs, (requests) => {
      for (const request of requests) use(keyOf(request), request.atMs);
    });
  const again = { ...options, onProgress: undefined };
  const peaks = new ClientPeaks();
  let withoutKey = 0;
  const reading = await eachOf(options, (key, atMs) => {
    if (key === undefined) withoutKey += 1;
    else peaks.add(key, atMs);
  });
  const needs = peaks.averages().map((average) => new BurstNeeds(average, peaks.size));
  await eachOf(again, (key, atMs) => {
    const client = key === undefined ? undefined : peaks.numberOf(key);
    if (client === undefined) return;
    for (const need of needs) need.add(client, Math.round(atMs * 1000));
  });
  const candidates = candidatesOf(needs).map((candidate) => new CandidateLimit(candidate));
  await eachOf(again, (key, atMs) => {
    if (key === undefined) return;
    for (const candidate of candidates) candidate.check(key, atMs);
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

/** The requests of the present minute, and the most that one ever had. */
interface ClientUse {
  readonly number: number;
  minute: number;
  requests: number;
  most: number;
}

/** How busy each client was in its busiest minute. */
class ClientPeaks {
  isPartial = false;
  private readonly clients = new Map<string, ClientUse>();

  get size(): number {
    return this.clients.size;
  }

  /** From 0; undefined for those that are not remembered. */
  numberOf(key: string): number | undefined {
    return this.clients.get(key)?.number;
  }

  add(key: string, atMs: number): void {
    let use = this.clients.get(key);
    if (use === undefined) {
      if (this.clients.size >= MAX_CLIENTS) {
        this.isPartial = true;
        return;
      }
      use = { number: this.clients.size, minute: 0, requests: 0, most: 0 };
      this.clients.set(key, use);
    }
    const minute = Math.floor(atMs / MINUTE_MS);
    if (use.minute !== minute) {
      use.minute = minute;
      use.requests = 0;
    }
    use.requests += 1;
    if (use.requests > use.most) use.most = use.requests;
  }

  /** One per percentile. */
  averages(): readonly PercentileAverage[] {
    const most = Float64Array.from(this.clients.values(), (use) => use.most).toSorted();
    if (most.length === 0) return [];
    return PERCENTILES.map((percentile) => ({
      percentile,
      average: roundedUp(percentileOf(most, percentile)),
    }));
  }
}

type PercentileAverage = Pick<SuggestedLimit, 'percentile' | 'average'>;
type ProposedLimit = Pick<SuggestedLimit, 'percentile' | 'average' | 'burst'>;

/** A request is so many units, of which `average` flow off in a microsecond: all numbers are whole. */
const UNITS = 60_000_000;

/**
 * The burst with which a bucket of this average would never have denied a client, for each client: the most that a
 * bucket without bounds ever held. Requests in some seconds do not tell, since the bucket fills up more slowly.
 */
class BurstNeeds {
  readonly candidate: PercentileAverage;
  private readonly levels: Float64Array;
  private readonly most: Float64Array;
  private readonly lastUs: Float64Array;

  constructor(candidate: PercentileAverage, clients: number) {
    this.candidate = candidate;
    this.levels = new Float64Array(clients);
    this.most = new Float64Array(clients);
    this.lastUs = new Float64Array(clients);
  }

  add(client: number, atUs: number): void {
    const { levels, most, lastUs } = this;
    const flowed = (atUs - (lastUs[client] ?? 0)) * this.candidate.average;
    const level = Math.max(0, (levels[client] ?? 0) - flowed) + UNITS;
    lastUs[client] = atUs;
    levels[client] = level;
    if (level > (most[client] ?? 0)) most[client] = level;
  }

  burst(): number {
    const units = percentileOf(this.most.toSorted(), this.candidate.percentile);
    return roundedUp(Math.ceil(units / UNITS));
  }
}

/** Where two are the same, the first. */
function candidatesOf(needs: readonly BurstNeeds[]): readonly ProposedLimit[] {
  const found = needs.map((need) => ({ ...need.candidate, burst: need.burst() }));
  return found.filter(
    ({ average, burst }, at) =>
      at === found.findIndex((other) => other.average === average && other.burst === burst),
  );
}

function percentileOf(sorted: Float64Array, percentile: number): number {
  return sorted[Math.min(sorted.length - 1, Math.ceil((sorted.length * percentile) / 100) - 1)] ?? 1;
}

/** To two digits: nobody wants a limit of 1,237. */
function roundedUp(number: number): number {
  const unit = Math.max(1, 10 ** (Math.floor(Math.log10(Math.max(1, number))) - 1));
  return Math.ceil(number / unit) * unit;
}

/** A limit on trial. */
class CandidateLimit {
  private readonly candidate: ProposedLimit;
  private readonly policy: Policy;
  private readonly limiter: Limiter;
  private readonly deniedClients = new Map<string, number>();
  private nowUs = 0;
  private denied = 0;

  constructor(candidate: ProposedLimit) {
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
