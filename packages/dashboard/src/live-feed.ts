import type { LiveSample } from 'spillgate-gateway';
import type { RecentLine } from './decisions.ts';
import { Observable, useObservable } from './observable.ts';

/** What the page knows of the gateway now. */
export interface LiveView {
  readonly state: 'connecting' | 'live' | 'lost';
  /** The oldest first, a second apart where nothing was missed. */
  readonly samples: readonly LiveSample[];
  /** The last few, with what they say about rules, policies and backends. */
  readonly recent: readonly LiveSample[];
}

const MAX_SAMPLES = 300;
const MAX_DENIALS = 500;
/** A rate is told over so many seconds: one alone jumps. */
const RATE_SAMPLES = 5;

/** Follows `GET /v1/live` for as long as the page is open. */
export class LiveFeed {
  readonly view = new Observable<LiveView>({ state: 'connecting', samples: [], recent: [] });
  /** Denials that happened while the page is open, the latest first. */
  readonly denials = new Observable<readonly RecentLine[]>([]);
  private source: EventSource | undefined;
  private retry: number | undefined;

  open(): void {
    this.close();
    const source = new EventSource('/v1/live');
    this.source = source;
    source.addEventListener('history', (event) => this.begin(samplesIn(event)));
    source.addEventListener('sample', (event) => this.add(samplesIn(event)));
    source.addEventListener('denials', (event) => this.hear(linesIn(event)));
    source.addEventListener('error', () => this.lost());
  }

  close(): void {
    this.source?.close();
    window.clearTimeout(this.retry);
  }

  private begin(history: readonly LiveSample[]): void {
    // A gateway that was started again counts from zero: what came before is another story.
    const started = history.at(-1)?.startedAt;
    const known = this.view.value.samples.filter(({ startedAt }) => startedAt === (started ?? startedAt));
    const samples = history.length > known.length ? history : known;
    this.view.set({ state: 'connecting', samples, recent: [] });
  }

  private add([sample]: readonly LiveSample[]): void {
    if (sample === undefined) return;
    const { samples, recent } = this.view.value;
    const kept = samples.filter(({ startedAt }) => startedAt === sample.startedAt);
    this.view.set({
      state: 'live',
      samples: [...kept, sample].slice(-MAX_SAMPLES),
      recent: [...recent, sample].slice(-RATE_SAMPLES - 1),
    });
  }

  private hear(lines: readonly RecentLine[]): void {
    const known = new Map(
      [...lines, ...this.denials.value].map((line) => [`${line.id} ${line.number}`, line]),
    );
    this.denials.set([...known.values()].slice(0, MAX_DENIALS));
  }

  /** The browser tries again by itself, except after an answer that is none. */
  private lost(): void {
    this.view.set({ ...this.view.value, state: 'lost' });
    if (this.source?.readyState !== EventSource.CLOSED) return;
    window.clearTimeout(this.retry);
    this.retry = window.setTimeout(() => this.open(), 2000);
  }
}

/** A number that goes up every few seconds while the gateway answers: what was asked for once is asked for again. */
export function useTurn(feed: LiveFeed): number {
  const { samples } = useObservable(feed.view);
  return Math.floor((samples.at(-1)?.at ?? 0) / TURN_MS);
}

const TURN_MS = 5000;

function samplesIn(event: Event): readonly LiveSample[] {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the gateway checks what it sends by the schema that the type comes from
  return valuesIn(event) as readonly LiveSample[];
}

function linesIn(event: Event): readonly RecentLine[] {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the gateway checks what it sends by the schema that the type comes from
  return valuesIn(event) as readonly RecentLine[];
}

/** The gateway checks what it sends. */
function valuesIn(event: Event): readonly unknown[] {
  if (!(event instanceof MessageEvent)) return [];
  const value: unknown = JSON.parse(String(event.data));
  return Array.isArray(value) ? value : [value];
}

/** How much of something there was per second lately. */
export function rateOf(samples: readonly LiveSample[], count: (sample: LiveSample) => number): number {
  const last = samples.at(-1);
  const first = samples.at(-1 - RATE_SAMPLES) ?? samples[0];
  if (last === undefined || first === undefined || last.at <= first.at) return 0;
  return Math.max(0, (count(last) - count(first)) / ((last.at - first.at) / 1000));
}

/** The same for every second that there is, for a plot: null where samples are missing. */
export function ratesOf(
  samples: readonly LiveSample[],
  count: (sample: LiveSample) => number,
): (number | null)[] {
  return samples.map((sample, at) => {
    const before = samples[at - 1];
    const seconds = before === undefined ? 0 : (sample.at - before.at) / 1000;
    if (before === undefined || seconds <= 0 || seconds > 5) return null;
    return Math.max(0, (count(sample) - count(before)) / seconds);
  });
}

/** How many seconds a share of what was measured between two samples took at most; undefined if there was nothing. */
export function percentile(
  before: LiveSample['latency'] | undefined,
  after: LiveSample['latency'],
  part: number,
): number | undefined {
  const counts = after.counts.map((count, at) => count - (before?.counts[at] ?? 0));
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total <= 0) return undefined;
  let seen = 0;
  for (const [at, count] of counts.entries()) {
    if (seen + count >= part * total) {
      const lower = after.bounds[at - 1] ?? 0;
      const upper = after.bounds[at] ?? lower;
      return lower + ((upper - lower) * (part * total - seen)) / count;
    }
    seen += count;
  }
  return after.bounds.at(-1);
}
