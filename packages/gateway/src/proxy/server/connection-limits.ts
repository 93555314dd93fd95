import type { Socket } from 'node:net';
import type { Config } from '../../config/config.ts';
import { ThrottledWarning, type Log } from '../../telemetry/log.ts';
import type { ConnectionBound, TrafficListener } from '../../telemetry/traffic.ts';
import { CountByKey } from '../context.ts';
import { readingRules } from '../request/read-request.ts';

export interface ConnectionLimitsParts {
  readonly config: () => Config;
  readonly traffic: TrafficListener;
  readonly log: Log;
}

/**
 * Counts the open connections of all clients and of each, and closes those that are too many before anything is read of
 * them.
 */
export class ConnectionLimits {
  private readonly parts: ConnectionLimitsParts;
  private open = 0;
  private readonly byAddress = new CountByKey();
  private readonly warnings: Readonly<Record<ConnectionBound, ThrottledWarning>>;

  constructor(parts: ConnectionLimitsParts) {
    this.parts = parts;
    this.warnings = {
      max_connections: new ThrottledWarning(
        parts.log,
        'server.max_connections is reached: connections are closed',
      ),
      max_overhead_per_address: new ThrottledWarning(
        parts.log,
        'server.max_overhead_per_address is used up: too many new connections of this address wait, and further ones are closed',
      ),
      max_connections_per_address: new ThrottledWarning(
        parts.log,
        'server.max_connections_per_address is reached: connections of this address are closed. If it is a load balancer, name it in server.client_address.trusted_proxies',
      ),
    };
  }

  /** Counts a connection until it closes; one too many is closed at once. */
  admits(socket: Socket): boolean {
    const config = this.parts.config();
    if (this.open >= config.server.max_connections) {
      this.refused('max_connections');
      socket.destroy();
      return false;
    }
    const rules = readingRules(config);
    const address = rules.keyOfPeer(socket.remoteAddress);
    const ofAddress = address === undefined ? 0 : this.byAddress.of(address);
    const max = config.server.max_connections_per_address;
    // A proxy has many connections, and many clients behind each of them.
    if (max > 0 && ofAddress >= max && !rules.trustsPeer(socket.remoteAddress)) {
      this.refused('max_connections_per_address', address);
      socket.destroy();
      return false;
    }
    this.open += 1;
    if (address !== undefined) this.byAddress.add(address);
    socket.once('close', () => this.left(address));
    return true;
  }

  /** Also told of connections that are closed elsewhere. */
  refused(bound: ConnectionBound, address?: string): void {
    this.parts.traffic.count('connectionsRefused', bound);
    this.warnings[bound].warn(address === undefined ? {} : { address });
  }

  private left(address: string | undefined): void {
    this.open -= 1;
    if (address !== undefined) this.byAddress.remove(address);
  }
}
