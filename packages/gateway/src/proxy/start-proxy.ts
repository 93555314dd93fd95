import { randomBytes } from 'node:crypto';
import type { AddressInfo, Socket } from 'node:net';
import type { TlsOptions } from 'node:tls';
import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../config/config.ts';
import type { Log } from '../telemetry/log.ts';
import type { TrafficListener } from '../telemetry/traffic.ts';
import {
  CountByKey,
  type ConfigSnapshot,
  type ProxyContext,
  type EarlyRefusalListener,
  MaintenanceSwitch,
  type Tunnels,
} from './context.ts';
import { UpstreamFailureLog } from './forward/upstream-failure.ts';
import { ConnectionLimits, TcpListener, SuspectConnections } from './server/listener.ts';
import { OverheadBudgets } from './server/overhead-budget.ts';
import { HttpServer, httpServerSettings } from './server/http-server.ts';
import { readingRules } from './request/read-request.ts';
import { ProxyWatch } from './request/proxy-watch.ts';

export interface ProxyOptions {
  /** The configuration in use, asked for once per request. */
  readonly snapshot: () => ConfigSnapshot;
  readonly traffic: TrafficListener;
  readonly log: Log;
  /** Certificates and what else TLS needs. Left out: no TLS. */
  readonly secureContext?: TlsOptions | undefined;
  /** Another process accepts the connections and hands them over. Default: false. */
  readonly sharedPort?: boolean | undefined;
  /** Left out: requests for a tunnel get a 501. */
  readonly tunnels?: Tunnels | undefined;
  /** Left out: the configuration alone decides. */
  readonly maintenance?: MaintenanceSwitch | undefined;
  /** Default: nobody hears of what is refused before the rules. */
  readonly onEarlyRefusal?: EarlyRefusalListener | undefined;
}

/** Something that is ready and not yet in use. Exactly one of these is called, once. */
export interface PreparedChange {
  /** From now on. It cannot fail. */
  commit(): void;
  abort(): void;
}

export interface Proxy {
  address(): AddressInfo;
  /** Serves another certificate from now on; connections that are open go on. Without TLS it does nothing. */
  useSecureContext(options: TlsOptions): void;
  /**
   * Makes ready what another configuration asks of the port and of what serves its connections, while the old ones go
   * on. Once in use, it gets every new connection; the others are closed behind their next answer. Rejects with the
   * system's error if an address cannot be listened on: then nothing has changed.
   */
  prepare(config: Config, secureContext: TlsOptions | undefined): Promise<PreparedChange>;
  /** Accepts clients that have already connected, and closes the port; open connections stay open. */
  stopAccepting(): Promise<void>;
  /**
   * Takes no new connections, answers what is in flight and closes each connection behind its answer. Resolves when all
   * are gone; what is left at the deadline is cut off.
   */
  drain(deadlineMs: number): Promise<void>;
  /** At once. */
  close(): Promise<void>;
}

/** Listens at `server.address`, asks the gate about every request, and forwards what it admits. */
export async function startProxy(options: ProxyOptions): Promise<Proxy> {
  const { config } = options.snapshot();
  const proxy = new RunningProxy(options);
  const prepared = await proxy.prepare(config, options.secureContext);
  prepared.commit();
  return proxy;
}

/** How often a drain looks whether everything is gone. */
const DRAIN_LOOK_MS = 10;

class RunningProxy implements Proxy {
  private readonly shared: Omit<ProxyContext, 'draining'>;
  private readonly doorkeeper: ConnectionLimits;
  private readonly suspects: SuspectConnections;
  /** In use, and those that still have something to finish. */
  private readonly fronts = new Set<HttpServer>();
  private readonly ports = new Set<TcpListener>();
  private readonly acceptWaiting: (port: TcpListener) => Promise<void>;
  private current: { readonly front: HttpServer; readonly port: TcpListener } | undefined;

  constructor(options: ProxyOptions) {
    const { snapshot, traffic, log, tunnels, sharedPort = false } = options;
    this.acceptWaiting = sharedPort ? acceptHandedOver : acceptWaiting;
    this.shared = {
      snapshot,
      traffic,
      log,
      tunnels,
      maintenance: options.maintenance ?? new MaintenanceSwitch(),
      onEarlyRefusal: options.onEarlyRefusal ?? (() => undefined),
      upstreamFailures: new UpstreamFailureLog(log),
      proxyWatch: new ProxyWatch({ log, traffic }),
      overhead: new OverheadBudgets({ config: () => snapshot().config, traffic, log }),
      pseudonym: `spillgate-${randomBytes(6).toString('hex')}`,
      load: { underWay: 0, unreadBytes: 0, byClient: new CountByKey(), ending: false },
    };
    this.doorkeeper = new ConnectionLimits({ config: () => snapshot().config, traffic, log });
    this.suspects = new SuspectConnections(this.shared.overhead, (address) =>
      this.doorkeeper.refused('max_overhead_per_address', address),
    );
  }

  address(): AddressInfo {
    if (this.current === undefined) throw new Error('the proxy does not listen yet');
    return this.current.port.address();
  }

  useSecureContext(options: TlsOptions): void {
    this.current?.front.useSecureContext(options);
  }

  async prepare(config: Config, secureContext: TlsOptions | undefined): Promise<PreparedChange> {
    const { current } = this;
    const settings = httpServerSettings(config, secureContext !== undefined);
    const keptPort = current?.port.configured === config.server.address ? current.port : undefined;
    // Clients on the old port are told to reconnect, to the new one.
    if (keptPort !== undefined && isDeepStrictEqual(current?.front.settings, settings)) {
      return { commit: () => this.bound(keptPort), abort: () => undefined };
    }
    const front = new HttpServer({ ...this.shared, draining: false }, settings, secureContext);
    try {
      const port = keptPort ?? (await TcpListener.open(config.server.address, this.shared.log));
      return {
        commit: () => this.use(front, port),
        abort: () => {
          front.destroy();
          if (port !== keptPort) port.close();
        },
      };
    } catch (failure) {
      front.destroy();
      throw failure;
    }
  }

  async stopAccepting(): Promise<void> {
    await Promise.all([...this.ports].map(async (port) => this.closeBehindWaiting(port)));
  }

  async drain(deadlineMs: number): Promise<void> {
    const deadline = performance.now() + deadlineMs;
    await this.stopAccepting();
    // Not before the port is closed: a client that is told to connect again would come back to it.
    this.shared.load.ending = true;
    await Promise.all([...this.fronts].map(async (front) => front.drain()));
    const tunnels = this.shared.tunnels?.drain(deadlineMs);
    await this.gone(deadline);
    this.destroy();
    await tunnels;
    await this.gone(Infinity);
  }

  async close(): Promise<void> {
    this.shared.load.ending = true;
    for (const port of this.ports) port.stopAccepting();
    this.destroy();
    await this.gone(Infinity);
  }

  private use(front: HttpServer, port: TcpListener): void {
    const old = this.current;
    this.current = { front, port };
    this.fronts.add(front);
    if (!this.ports.has(port)) {
      this.ports.add(port);
      port.onDrop(() => {
        this.doorkeeper.refused('max_connections');
        this.bound(port);
      });
    }
    this.bound(port);
    port.serve((socket) => this.take(socket, { front, port }));
    if (old !== undefined) void this.retire(old.front, old.port === port ? undefined : old.port);
  }

  private take(
    socket: Socket,
    { front, port }: { readonly front: HttpServer; readonly port: TcpListener },
  ): void {
    this.bound(port);
    if (!this.doorkeeper.admits(socket)) return;
    const address = readingRules(this.shared.snapshot().config).keyOfPeer(socket.remoteAddress);
    const alive = (): HttpServer => (this.fronts.has(front) ? front : (this.current?.front ?? front));
    this.suspects.serve(address, { socket, front: alive });
  }

  private bound(port: TcpListener): void {
    port.bound(this.shared.snapshot().config.server.max_connections);
  }

  /** Never rejects. */
  private async retire(front: HttpServer, port: TcpListener | undefined): Promise<void> {
    if (port !== undefined) {
      await this.closeBehindWaiting(port);
      this.ports.delete(port);
    }
    await front.retire(() => this.fronts.delete(front));
  }

  private async closeBehindWaiting(port: TcpListener): Promise<void> {
    if (!port.isOpen) return;
    await this.acceptWaiting(port);
    port.stopAccepting();
  }

  private destroy(): void {
    this.suspects.close();
    for (const front of this.fronts) front.destroy();
  }

  private async gone(deadline: number): Promise<void> {
    while ([...this.fronts].some(({ size }) => size > 0) && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, DRAIN_LOOK_MS));
    }
  }
}

/** As many as the system lets wait. */
const MAX_WAITING = 511;

/**
 * Clients that have already connected are accepted: the system would reset those in its queue. One turn of the loop
 * accepts one.
 */
async function acceptWaiting(port: TcpListener): Promise<void> {
  // The first turn may have polled before it was asked for.
  await turn();
  for (let accepted = -1, turns = 0; accepted !== port.accepted && turns < MAX_WAITING; turns += 1) {
    ({ accepted } = port);
    await turn();
  }
}

/** With other processes at work, so long without a connection means that none is on its way. */
const HANDED_OVER_WITHIN_MS = 50;
const MAX_HANDOVER_LOOKS = 20;

/**
 * The same where another process has accepted them already: what it has not handed over when the last worker leaves, it
 * resets.
 */
async function acceptHandedOver(port: TcpListener): Promise<void> {
  for (let accepted = -1, looks = 0; accepted !== port.accepted && looks < MAX_HANDOVER_LOOKS; looks += 1) {
    ({ accepted } = port);
    await new Promise((resolve) => setTimeout(resolve, HANDED_OVER_WITHIN_MS));
  }
}

async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}
