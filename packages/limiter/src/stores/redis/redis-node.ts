import { sinceNow, type SinceWhen } from '../../clock.ts';
import { DeadlineQueue, QueuedDeadline } from '../../deadline-queue.ts';
import { LimiterError } from '../../errors.ts';
import { fixedWindow } from '../../policy.ts';
import { processWarning } from '../../process-warning.ts';
import type { NodeHealth, StoreEvent } from '../store.ts';
import { scriptCommand, withSource, type Command, decideScript } from './script.ts';
import type { RedisConnection } from './connection.ts';
import { isAnswer, replyCode, toStoreError } from './failure-class.ts';
import { encode } from './protocol.ts';
import { ServerBreaker } from './server-breaker.ts';
import { checkServer, type ServerCheck } from './server-check.ts';

export interface NodeOptions {
  /** How long one call may take before it counts as failed. */
  readonly timeoutMs: () => number;
  readonly observe: (event: StoreEvent) => void;
  /** A name in the same slot as a given key, for the probe to write. */
  readonly probeKey: (key: string) => string;
  /** False for a sentinel or a cache, of which nothing is expected but to answer. Default: true. */
  readonly decides?: boolean;
}

/** What a probe decides: always an admission, so that the server has to write. */
const PROBE_LIMIT = fixedWindow({ name: 'probe', quota: 2 ** 40, window: '1s' }).for('probe');

/** A server that only stood still answers on the same connection, also what it was asked before. */
const MIN_SILENCE_MS = 500;

/** One server with what is known about it: whether it answers, since when, and what it said last. */
export class RedisNode {
  readonly name: string;
  /** Resolves when the first attempt to connect has ended and the server has said what it is, or has not. */
  readonly opening: Promise<void>;
  private readonly label: string;
  private readonly connection: RedisConnection;
  private readonly options: NodeOptions;
  private readonly breaker: ServerBreaker;
  private timeouts: DeadlineQueue | undefined;
  private upSince = sinceNow();
  /** When the connection was lost, or began to be waited for. */
  private unconnectedSince = this.upSince;
  private wasConnected = false;
  private opened = false;
  /** While the server is asked what it is. */
  private inspection: Promise<void> | undefined;
  private lastKey = '';
  /** The server has been asked what it is, though perhaps it did not tell. */
  private inspected = false;
  private known: ServerCheck | undefined;

  constructor(connection: RedisConnection, options: NodeOptions) {
    this.name = connection.name;
    this.label = `redis ${connection.name}`;
    this.connection = connection;
    this.options = options;
    this.breaker = new ServerBreaker({
      name: this.label,
      node: this.name,
      probe: () => this.inTime(this.probe()),
      onFailedProbe: (error) => this.reconsider(error),
      onOpen: (error) => options.observe({ type: 'nodeDown', node: this.name, error }),
      onClose: (afterMs) => {
        this.upSince = sinceNow();
        options.observe({ type: 'nodeUp', node: this.name, afterMs });
      },
    });
    connection.onReady(() => this.connected());
    connection.onLost((error) => this.disconnected(error));
    this.opening = this.open();
  }

  /** True when nothing speaks against asking this server. */
  get isWell(): boolean {
    return this.connection.isReady() && this.breaker.failingSince === undefined;
  }

  /** The reply, unless the server is down, refuses or takes too long; a call that takes too long is left to itself. */
  async call(command: Command, asking = false): Promise<unknown> {
    if (command.key !== '') this.lastKey = command.key;
    try {
      return await this.attempt(command, asking);
    } catch (error) {
      // A restarted or flushed server does not know the script. It surely did not run, so sending it again is safe.
      if (command.script === undefined || replyCode(error) !== 'NOSCRIPT') throw error;
      this.noteReload();
      return this.attempt(withSource(command, command.script), asking);
    }
  }

  health(): NodeHealth {
    const { breaker, connection } = this;
    const lastError = breaker.lastError?.message ?? 'unknown';
    if (breaker.downSince !== undefined) return this.report('down', breaker.downSince, lastError);
    if (!connection.isReady()) {
      const reason = because(connection.connectionError());
      return this.report('down', this.unconnectedSince, `no connection${reason}`);
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
    const { breaker, connection, known } = this;
    const error = known?.refusal ?? connection.connectionError() ?? breaker.lastError;
    return error === undefined ? undefined : toStoreError(this.label, error);
  }

  /** Something suggests that the server decides again. */
  probeNow(): void {
    this.breaker.probeNow();
  }

  /**
   * Lets calls that are in flight end, and leaves the server: another one has its place. Nobody will hear that it is up
   * again.
   */
  retire(): void {
    const { downSince } = this.breaker;
    this.breaker.close();
    if (downSince !== undefined) {
      const afterMs = Math.round(performance.now() - downSince.ms);
      this.options.observe({ type: 'nodeGone', node: this.name, afterMs });
    }
    setTimeout(() => void this.close(), this.options.timeoutMs()).unref();
  }

  close(): Promise<void> {
    this.breaker.close();
    return this.connection.close();
  }

  private async attempt(command: Command, asking: boolean): Promise<unknown> {
    this.breaker.requireClosed();
    // A server must not decide before it is known whether it may.
    const admission = this.opened ? this.inspection : this.opening;
    try {
      const reply = await this.inTime(
        admission === undefined
          ? this.connection.send(command, asking)
          : admission.then(() => this.sendAdmitted(command, asking)),
        command.onLateReply,
      );
      this.breaker.noteAnswer();
      return reply;
    } catch (error) {
      if (isAnswer(error)) {
        this.breaker.noteAnswer();
        throw error;
      }
      const failure = toStoreError(this.label, error);
      this.breaker.noteFailure(failure);
      if (isReadOnly(failure)) this.renewConnection(failure);
      throw this.blamed(failure);
    }
  }

  /** The error itself may be shared with other servers, such as that there is no client package. */
  private blamed(failure: LimiterError): LimiterError {
    if (failure.node === this.name) return failure;
    const { code, message, cause } = failure;
    return new LimiterError(code, message, { cause, node: this.name });
  }

  private sendAdmitted(command: Command, asking: boolean): Promise<unknown> {
    this.breaker.requireClosed();
    return this.connection.send(command, asking);
  }

  /** Waits for a reply as long as a call may take. One that comes later still tells that the server is back. */
  private inTime<Reply>(reply: Promise<Reply>, onLateReply?: (reply: Reply) => void): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const ms = this.options.timeoutMs();
      const wait = new ReplyTimeout(() =>
        reject(new NoReply(`${this.label} did not answer within ${ms} ms.`)),
      );
      this.timeoutsOf(ms).add(wait);
      reply.then(
        (value) => {
          if (wait.isRunning) {
            wait.cancel();
          } else {
            this.breaker.noteLateAnswer();
            onLateReply?.(value);
          }
          return resolve(value);
        },
        (error: unknown) => {
          wait.cancel();
          // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- passes on whatever was thrown
          reject(error);
        },
      );
    });
  }

  /** A store may learn later how long its limiter waits. */
  private timeoutsOf(ms: number): DeadlineQueue {
    if (this.timeouts?.lengthMs !== ms) this.timeouts = new DeadlineQueue(ms, { holdsProcess: true });
    return this.timeouts;
  }

  private report(status: NodeHealth['status'], since: SinceWhen, detail: string): NodeHealth {
    const lastError = (this.breaker.lastError ?? this.connection.connectionError())?.message;
    return { name: this.name, status, detail, since: since.iso, lastError };
  }

  /**
   * A decision, because nothing less shows that the server can decide: a replica, a full server or one without its
   * replicas answers everything that does not write, and one without scripts all that are not.
   */
  private async probe(): Promise<unknown> {
    const { lastKey, options } = this;
    if (this.inspection !== undefined) await this.inspection;
    else if (this.known?.refusal !== undefined) await this.inspect();
    if (this.known?.refusal !== undefined) throw this.known.refusal;
    if (lastKey === '' || options.decides === false)
      return this.connection.send({ key: '', name: 'PING', args: [] }, false);
    const keys = [options.probeKey(lastKey)];
    const questions = [{ verb: 'check', limits: [PROBE_LIMIT], cost: 1, keys }] as const;
    return this.sendScript(scriptCommand(decideScript(questions), keys, encode(questions, '')));
  }

  /** Past the breaker: about the server itself, not for a caller. */
  private readonly sendScript = async (command: Command): Promise<unknown> => {
    try {
      return await this.connection.send(command, false);
    } catch (error) {
      if (command.script === undefined || replyCode(error) !== 'NOSCRIPT') throw error;
      this.noteReload();
      return this.connection.send(withSource(command, command.script), false);
    }
  };

  private noteReload(): void {
    this.options.observe({ type: 'scriptReloaded', node: this.name });
  }

  /** Perhaps it is the connection that is dead and not the server, or it leads to one that another has replaced. */
  private reconsider(error: LimiterError): void {
    if ((error instanceof NoReply && this.failingMs() >= MIN_SILENCE_MS) || isReadOnly(error)) {
      this.renewConnection(error);
    }
  }

  private renewConnection(reason: Error): void {
    const advice = this.connection.renew(reason, this.failingMs());
    if (advice !== undefined) this.warn(advice, 'SPILLGATE_SILENT_CLIENT');
  }

  private failingMs(): number {
    return performance.now() - (this.breaker.failingSince?.ms ?? Infinity);
  }

  private warn(message: string, code: string): void {
    processWarning(message, code);
    this.options.observe({ type: 'warning', node: this.name, message });
  }

  private async open(): Promise<void> {
    if (this.connection.isReady()) this.startInspection();
    else await this.connection.opening;
    await this.inspection;
    this.opened = true;
  }

  private connected(): void {
    this.wasConnected = true;
    this.upSince = sinceNow();
    this.startInspection();
    this.breaker.probeNow();
  }

  private disconnected(error: Error): void {
    this.inspected = false;
    if (this.wasConnected) this.unconnectedSince = sinceNow();
    this.wasConnected = false;
    this.breaker.explain(error);
  }

  /** At the first connection, and at every later one: it may be another server, or one with other settings. */
  private startInspection(): void {
    const inspection = this.inspect().finally(() => {
      if (this.inspection === inspection) this.inspection = undefined;
    });
    this.inspection = inspection;
  }

  private async inspect(): Promise<void> {
    if (this.options.decides === false) {
      this.inspected = true;
      return;
    }
    const before = this.known;
    const known = await checkServer(this.label, this.sendScript, before);
    this.known = known;
    this.inspected = this.connection.isReady();
    if (known.refusal !== undefined) this.breaker.open(known.refusal);
    if (known.warning === undefined || known.warning === before?.warning) return;
    this.warn(known.warning, 'SPILLGATE_EVICTION');
  }
}

class ReplyTimeout extends QueuedDeadline {
  readonly timeUp: () => void;

  constructor(timeUp: () => void) {
    super();
    this.timeUp = timeUp;
  }
}

/** There was no answer in time, as opposed to one that does not help. */
class NoReply extends LimiterError {
  constructor(message: string) {
    super('STORE_UNAVAILABLE', message);
  }
}

function isReadOnly(error: unknown): error is Error {
  return error instanceof Error && replyCode(error.cause) === 'READONLY';
}

function because(error: Error | undefined): string {
  return error === undefined ? ' yet' : `: ${error.message}`;
}
