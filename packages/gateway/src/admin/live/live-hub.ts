import type { ServerResponse } from 'node:http';
import type { Log } from '../../telemetry/log.ts';
import type { RequestStories } from '../control.ts';
import { AdminProblem } from '../problems.ts';
import type { LiveSample } from './live-sample.ts';

interface LiveHubParts {
  readonly sample: () => Promise<LiveSample>;
  readonly stories: () => Pick<RequestStories, 'recent'>;
  readonly log: Log;
}

const EVERY_MS = 1000;
const MAX_WATCHERS = 32;
/** Of those that happened within a second, so many are told. */
const MAX_DENIALS = 50;
/** What is kept while someone watches: a page that opens later shows it too. */
const MAX_HISTORY = 300;
/** A page that reads so slowly is cut off, and may come back. */
const MAX_UNREAD_BYTES = 1_048_576;
/** Pages come back by themselves, and are asked then whether they still may. */
const MAX_WATCH_MS = 3_600_000;

/** Tells pages every second what the gateway does. While nobody watches, it does nothing at all. */
export class LiveHub {
  /** What there is to tell now. */
  readonly sample: () => Promise<LiveSample>;
  private readonly stories: LiveHubParts['stories'];
  private readonly log: Log;
  /** When the denials that were told last have happened; those of the same moment are told again. */
  private toldMs = 0;
  private readonly watchers = new Set<ServerResponse>();
  private readonly history: LiveSample[] = [];
  private timer: NodeJS.Timeout | undefined;
  private reading = false;
  private closed = false;

  constructor({ sample, stories, log }: LiveHubParts) {
    this.sample = sample;
    this.stories = stories;
    this.log = log;
  }

  /** Room for one more, who gets everything until it goes. */
  join(): (response: ServerResponse) => void {
    if (this.watchers.size >= MAX_WATCHERS || this.closed) {
      throw new AdminProblem(
        'TOO_MANY_WATCHERS',
        `${this.watchers.size} pages watch; expected at most ${MAX_WATCHERS}: close one.`,
      );
    }
    return (response) => this.watch(response);
  }

  get watching(): number {
    return this.watchers.size;
  }

  /** Nobody watches any more. */
  close(): void {
    this.closed = true;
    clearInterval(this.timer);
    for (const response of this.watchers) response.end();
  }

  private watch(response: ServerResponse): void {
    this.watchers.add(response);
    const tooLong = setTimeout(() => response.end(), MAX_WATCH_MS);
    response.once('close', () => {
      clearTimeout(tooLong);
      this.watchers.delete(response);
      if (this.watchers.size > 0) return;
      clearInterval(this.timer);
      this.timer = undefined;
    });
    response.write(eventOf('history', this.history));
    this.timer ??= setInterval(() => void this.tick(), EVERY_MS);
    if (this.watchers.size === 1) void this.tick();
  }

  private async tick(): Promise<void> {
    // The store, or a worker, is slow: one question at a time.
    if (this.reading) return;
    this.reading = true;
    try {
      const sample = await this.sample();
      this.remember(sample);
      this.tell(eventOf('sample', sample));
      await this.tellDenials();
    } catch (err) {
      this.log.warn({ err }, 'the dashboard could not be told what the gateway does');
    } finally {
      this.reading = false;
    }
  }

  private async tellDenials(): Promise<void> {
    const query = { outcome: 'denied', sinceMs: this.toldMs, limit: MAX_DENIALS } as const;
    const denials = await this.stories().recent(query);
    const [latest] = denials;
    if (latest === undefined) return;
    this.toldMs = Date.parse(latest.at);
    this.tell(eventOf('denials', denials));
  }

  /** Without what only the latest sample is asked for. */
  private remember(sample: LiveSample): void {
    this.history.push({ ...sample, rules: [], policies: [], backends: [] });
    if (this.history.length > MAX_HISTORY) this.history.shift();
  }

  private tell(event: string): void {
    for (const response of this.watchers) {
      // One that was to end a second ago and is still there is not read, either.
      if (response.writableEnded || response.writableLength > MAX_UNREAD_BYTES) response.destroy();
      else response.write(event);
    }
  }
}

function eventOf(name: string, value: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(value)}\n\n`;
}
