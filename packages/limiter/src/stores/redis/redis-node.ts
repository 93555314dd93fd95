import { emitWarning } from 'node:process';
import type { LimiterError } from '../../errors.ts';
import type { NodeHealth, StoreEvent } from '../store.ts';
import { Breaker } from './breaker.ts';
import type { Link } from './link.ts';
import { checkServer } from './server-check.ts';

export interface NodeOptions {
  readonly timeoutMs: number;
  readonly observe: (event: StoreEvent) => void;
  /** A name in the same slot as a given key, for the probe to write. */
  readonly probeKey: (key: string) => string;
}

const PROBE_TTL_MS = '1000';

/** One server with what is known about it: whether it answers, since when, and what it said last. */
export class RedisNode {
  readonly name: string;
  private readonly link: Link;
  private readonly options: NodeOptions;
  private readonly breaker: Breaker;
  private readonly createdAt = Date.now();
  private upSince: number;
  private lastKey = '';
  private refusal: LimiterError | undefined;
  private warning: string | undefined;

  constructor(link: Link, options: NodeOptions) {
    this.name = link.name;
    this.link = link;
    this.options = options;
    this.upSince = this.createdAt;
    this.breaker = new Breaker({
      name: `redis ${link.name}`,
      timeoutMs: options.timeoutMs,
      probe: () => this.probe(),
      onOpen: (error) => options.observe({ type: 'nodeDown', node: this.name, error }),
      onClose: (afterMs) => {
        this.upSince = Date.now();
        options.observe({ type: 'nodeUp', node: this.name, afterMs });
      },
    });
    link.onReady(() => this.connected());
    if (link.isReady()) void this.inspect();
  }

  get isReady(): boolean {
    return this.link.isReady();
  }

  async send(key: string, command: string, args: readonly string[]): Promise<unknown> {
    if (this.refusal !== undefined) throw this.refusal;
    this.lastKey = key;
    return this.breaker.run(() => this.link.send(key, command, args));
  }

  /** Asks about the server itself, not about a key. */
  async ask(command: string, args: readonly string[]): Promise<unknown> {
    return this.breaker.run(() => this.link.send('', command, args));
  }

  async sendAsking(key: string, command: string, args: readonly string[]): Promise<unknown> {
    this.lastKey = key;
    return this.breaker.run(() => this.link.sendAsking(command, args));
  }

  health(): NodeHealth {
    const { name, breaker, warning } = this;
    const lastError = (this.refusal ?? breaker.lastError)?.message;
    if (this.refusal !== undefined) {
      return this.report('down', this.createdAt, this.refusal.message);
    }
    if (breaker.downSince !== undefined) {
      return this.report('down', breaker.downSince, `no answer: ${lastError ?? 'unknown'}`);
    }
    if (breaker.failingSince !== undefined) {
      return this.report('degraded', breaker.failingSince, `some calls fail: ${lastError ?? 'unknown'}`);
    }
    if (!this.link.isReady())
      return this.report(
        'down',
        this.createdAt,
        `no connection to ${name} yet${because(this.link.connectionError())}`,
      );
    return this.report('up', this.upSince, warning ?? 'answers');
  }

  close(): Promise<void> {
    this.breaker.close();
    return this.link.close();
  }

  private report(status: NodeHealth['status'], since: number, detail: string): NodeHealth {
    const lastError = (this.refusal ?? this.breaker.lastError)?.message;
    return { name: this.name, status, detail, since: new Date(since).toISOString(), lastError };
  }

  /** A write, because a replica, a full server or one without its replicas answers everything else. */
  private probe(): Promise<unknown> {
    const { lastKey, link, options } = this;
    if (lastKey === '') return link.send('', 'PING', []);
    return link.send(lastKey, 'SET', [options.probeKey(lastKey), '', 'PX', PROBE_TTL_MS]);
  }

  private connected(): void {
    this.breaker.probeNow();
    void this.inspect();
  }

  /** At the first connection, and at every later one: it may be another server, or one with other settings. */
  private async inspect(): Promise<void> {
    const { refusal, warning } = await checkServer(`redis ${this.name}`, (command, args) =>
      this.link.send('', command, args),
    );
    this.refusal = refusal;
    if (warning !== undefined && warning !== this.warning) {
      emitWarning(warning, { type: 'SpillgateWarning', code: 'SPILLGATE_EVICTION' });
      this.options.observe({ type: 'warning', node: this.name, message: warning });
    }
    this.warning = warning;
  }
}

function because(error: Error | undefined): string {
  return error === undefined ? '' : `: ${error.message}`;
}
