import { randomBytes } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import type { TlsOptions } from 'node:tls';
import type { Log } from '../telemetry/log.ts';
import type { TrafficListener } from '../telemetry/traffic.ts';
import type { Live, ProxyContext, Tracer } from './context.ts';
import { FailureLog } from './forward/failure-log.ts';
import { Listener } from './front/listener.ts';
import type { Tunnels } from './tunnel.ts';

export interface ProxyOptions {
  /** The configuration in use, asked for once per request. */
  readonly live: () => Live;
  readonly traffic: TrafficListener;
  readonly log: Log;
  /** Certificates and what else TLS needs. Left out: no TLS. */
  readonly secureContext?: TlsOptions | undefined;
  /** Left out: requests for a tunnel get a 501. */
  readonly tunnels?: Tunnels | undefined;
  /** Left out: `traceparent` and `tracestate` pass as they are. */
  readonly tracer?: Tracer | undefined;
}

export interface Proxy {
  address(): AddressInfo;
  /** Serves another certificate from now on; connections that are open go on. Without TLS it does nothing. */
  useSecureContext(options: TlsOptions): void;
  /** Closes the port; what is open goes on. */
  stopAccepting(): void;
  /**
   * Takes no new connections, answers what is under way and closes each connection behind its answer. Resolves when all are gone; what is
   * left at the deadline is cut off.
   */
  drain(deadlineMs: number): Promise<void>;
  /** At once. */
  close(): Promise<void>;
}

/** How often a drain looks whether everything is gone. */
const DRAIN_LOOK_MS = 10;

/** Listens at `server.address`, asks the gate about every request, and forwards what it admits. */
export async function startProxy(options: ProxyOptions): Promise<Proxy> {
  const context: ProxyContext = {
    live: options.live,
    traffic: options.traffic,
    log: options.log,
    upstreamFailures: new FailureLog(options.log),
    tracer: options.tracer,
    tunnels: options.tunnels,
    pseudonym: `spillgate-${randomBytes(6).toString('hex')}`,
    underWay: 0,
    draining: false,
  };
  const listener = new Listener(context, options.secureContext);
  await listener.listen(parseAddress(options.live().config.server.address));
  return {
    address: () => addressOf(listener),
    useSecureContext: (secureContext) => listener.useSecureContext(secureContext),
    stopAccepting: () => listener.stopAccepting(),
    drain: async (deadlineMs) => drain(context, listener, deadlineMs),
    close: async () => {
      context.draining = true;
      listener.stopAccepting();
      listener.destroy();
      await gone(listener, Infinity);
    },
  };
}

async function drain(context: ProxyContext, listener: Listener, deadlineMs: number): Promise<void> {
  const deadline = performance.now() + deadlineMs;
  await acceptWaiting(listener);
  listener.stopAccepting();
  // Not before the port is closed: a client that is told to connect anew would come back to it.
  context.draining = true;
  // What has arrived already is read first, so that no connection with a request in it counts as idle.
  await turn();
  const tunnels = context.tunnels?.drain(deadlineMs);
  listener.drain();
  await gone(listener, deadline);
  listener.destroy();
  await tunnels;
  await gone(listener, Infinity);
}

/** As many as the system lets wait. */
const MAX_WAITING = 511;

/** Whoever has connected already is accepted: the system would reset what waits in its queue. One turn of the loop accepts one. */
async function acceptWaiting(listener: Listener): Promise<void> {
  // The first turn may have polled before it was asked for.
  await turn();
  for (let accepted = -1, turns = 0; accepted !== listener.accepted && turns < MAX_WAITING; turns += 1) {
    ({ accepted } = listener);
    await turn();
  }
}

async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

async function gone(listener: Listener, deadline: number): Promise<void> {
  while (listener.size > 0 && performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, DRAIN_LOOK_MS));
  }
}

function parseAddress(text: string): { readonly host: string | undefined; readonly port: number } {
  const colon = text.lastIndexOf(':');
  const host = text.slice(0, colon).replace(/^\[|\]$/g, '');
  return { host: host === '' ? undefined : host, port: Number(text.slice(colon + 1)) };
}

function addressOf({ server }: Listener): AddressInfo {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the proxy does not listen on a port');
  return address;
}
