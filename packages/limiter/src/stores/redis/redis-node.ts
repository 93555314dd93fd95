import { emitWarning } from 'node:process';
import type { LimiterError } from '../../errors.ts';
import { fixedWindow } from '../../policy.ts';
import type { NodeHealth, StoreEvent } from '../store.ts';
import { Breaker, NoAnswer } from './breaker.ts';
import { replyCode, toStoreError } from './failure-class.ts';
import type { Link } from './link.ts';
import { encode } from './protocol.ts';
import { callScript, DECIDE } from './script-call.ts';
import { checkServer, type ServerCheck } from './server-check.ts';

export interface NodeOptions {
  readonly timeoutMs: number;
  readonly observe: (event: StoreEvent) => void;
  /** A name in the same slot as a given key, for the probe to write. */
  readonly probeKey: (key: string) => string;
  /** False for a sentinel, of which nothing is expected but to answer. Default: true. */
  readonly decides?: boolean;
}

/** What a probe decides: always an admission, so that the server has to write. */
const PROBE_LIMIT = fixedWindow({ name: 'probe', quota: 2 ** 40, window: '1s' }).for('probe');

/** One server with what is known about it: whether it answers, since when, and what it said last. */
export class RedisNode {
  readonly name: string;
  private readonly link: Link;
  private readonly options: NodeOptions;
  private readonly breaker: Breaker;
  private upSince = Date.now();
  /** When the connection was lost, or began to be waited for. */
  private unconnectedSince = Date.now();
  private lastKey = '';
  /** The server has been asked what it is, though perhaps it did not tell. */
  private inspected = false;
  private known: ServerCheck | undefined;

  constructor(link: Link, options: NodeOptions) {
    this.name = link.name;
    this.link = link;
    this.options = options;
    this.breaker = new Breaker({
      name: `redis ${link.name}`,
      timeoutMs: options.timeoutMs,
      probe: () => this.probe(),
      onFailedProbe: (error) => this.reconsider(error),
      onOpen: (error) => options.observe({ type: 'nodeDown', node: this.name, error }),
      onClose: (afterMs) => {
        this.upSince = Date.now();
        options.observe({ type: 'nodeUp', node: this.name, afterMs });
      },
    });
    link.onReady(() => this.connected());
    link.onLost((error) => this.disconnected(error));
    if (link.isReady()) void this.inspect();
  }

  /** True when nothing speaks against asking this server. */
  get isWell(): boolean {
    return this.link.isReady() && this.breaker.failingSince === undefined;
  }

  async send(key: string, command: string, args: readonly string[]): Promise<unknown> {
    this.lastKey = key;
    try {
      return await this.breaker.run(() => this.link.send(key, command, args));
    } catch (error) {
      if (isReadOnly(error)) this.link.renew(error);
      throw error;
    }
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
    const { breaker, link } = this;
    const lastError = breaker.lastError?.message ?? 'unknown';
    if (breaker.downSince !== undefined) return this.report('down', breaker.downSince, lastError);
    if (!link.isReady()) {
      return this.report('down', this.unconnectedSince, `no connection${because(link.connectionError())}`);
    }
    if (!this.inspected)
      return this.report('down', this.unconnectedSince, 'connected, but without an answer yet');
    if (breaker.failingSince !== undefined) {
      return this.report('degraded', breaker.failingSince, `some calls fail: ${lastError}`);
    }
    return this.report('up', this.upSince, this.known?.warning ?? 'answers');
  }

  /** What speaks against asking this server, or did last. */
  failure(): LimiterError | undefined {
    const { breaker, link, known } = this;
    const error = known?.refusal ?? link.connectionError() ?? breaker.lastError;
    return error === undefined ? undefined : toStoreError(`redis ${this.name}`, error);
  }

  /** Something suggests that the server decides again. */
  probeNow(): void {
    this.breaker.probeNow();
  }

  /** Lets calls that are under way end, and leaves the server: another one has its place. Nobody will hear that it is up again. */
  retire(): void {
    const { downSince } = this.breaker;
    this.breaker.close();
    if (downSince !== undefined) {
      this.options.observe({ type: 'nodeGone', node: this.name, afterMs: Date.now() - downSince });
    }
    setTimeout(() => void this.close(), this.options.timeoutMs).unref();
  }

  close(): Promise<void> {
    this.breaker.close();
    return this.link.close();
  }

  private report(status: NodeHealth['status'], since: number, detail: string): NodeHealth {
    const lastError = (this.breaker.lastError ?? this.link.connectionError())?.message;
    return { name: this.name, status, detail, since: new Date(since).toISOString(), lastError };
  }

  /**
   * A decision, because nothing less shows that the server can decide: a replica, a full server or one without its
   * replicas answers everything that does not write, and one without scripts all that are not.
   */
  private async probe(): Promise<unknown> {
    const { lastKey, link, options } = this;
    if (this.known?.refusal !== undefined) await this.inspect();
    if (this.known?.refusal !== undefined) throw this.known.refusal;
    if (lastKey === '') return link.send('', 'PING', []);
    const keys = [options.probeKey(lastKey)];
    const args = encode([{ verb: 'check', limits: [PROBE_LIMIT], cost: 1, keys }], '');
    return callScript(link.send, { script: DECIDE, keys, args }, () => this.noteReload());
  }

  private noteReload(): void {
    this.options.observe({ type: 'scriptReloaded', node: this.name });
  }

  /** Perhaps it is the connection that is dead and not the server, or it leads to one that another has replaced. */
  private reconsider(error: LimiterError): void {
    if (error instanceof NoAnswer || isReadOnly(error)) this.link.renew(error);
  }

  private connected(): void {
    this.upSince = Date.now();
    this.breaker.probeNow();
    void this.inspect();
  }

  private disconnected(error: Error): void {
    this.inspected = false;
    if (this.unconnectedSince < this.upSince) this.unconnectedSince = Date.now();
    this.breaker.explain(error);
  }

  /** At the first connection, and at every later one: it may be another server, or one with other settings. */
  private async inspect(): Promise<void> {
    if (this.options.decides === false) {
      this.inspected = true;
      return;
    }
    const before = this.known;
    const known = await checkServer(`redis ${this.name}`, this.link.send, before, () => this.noteReload());
    this.known = known;
    this.inspected = this.link.isReady();
    if (known.refusal !== undefined) this.breaker.open(known.refusal);
    if (known.warning === undefined || known.warning === before?.warning) return;
    emitWarning(known.warning, { type: 'SpillgateWarning', code: 'SPILLGATE_EVICTION' });
    this.options.observe({ type: 'warning', node: this.name, message: known.warning });
  }
}

function isReadOnly(error: unknown): error is Error {
  return error instanceof Error && replyCode(error.cause) === 'READONLY';
}

function because(error: Error | undefined): string {
  return error === undefined ? ' yet' : `: ${error.message}`;
}
