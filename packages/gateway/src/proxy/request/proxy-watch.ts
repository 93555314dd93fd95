import { isDeepStrictEqual } from 'node:util';
import { watchProxies } from 'spillgate/http';
import type { Config } from '../../config/config.ts';
import type { Log } from '../../telemetry/log.ts';
import type { TrafficListener } from '../../telemetry/traffic.ts';
import type { ReadRequest } from './read-request.ts';

export interface ProxyWatchParts {
  readonly log: Log;
  readonly traffic: Pick<TrafficListener, 'count'>;
}

/**
 * Tells the log, once, of a proxy that is not trusted and makes one client of many; and counts what was odd about who
 * asked.
 */
export class ProxyWatch {
  private readonly parts: ProxyWatchParts;
  private watch: ReturnType<typeof watchProxies>;
  private config: Config | undefined;

  constructor(parts: ProxyWatchParts) {
    this.parts = parts;
    this.watch = this.begin();
  }

  /** For requests that name a client in a header, or whose client is odd; all others say nothing. */
  saw({ facts, headers, namesClient }: ReadRequest, peer: string | undefined, config: Config): void {
    const { client } = facts;
    if (client.oddity !== undefined) this.parts.traffic.count('addressOddities', client.oddity);
    if (!namesClient) return;
    this.follow(config);
    this.watch(client, { peer, headerLines: (name) => headers.lines(name) });
  }

  /** Who is trusted now was not looked at before. */
  private follow(config: Config): void {
    const before = this.config;
    if (before === config) return;
    this.config = config;
    if (before === undefined || isDeepStrictEqual(before.server.client_address, config.server.client_address))
      return;
    this.watch = this.begin();
  }

  private begin(): ReturnType<typeof watchProxies> {
    return watchProxies(({ code, message }) =>
      this.parts.log.warn({ code, docs: 'docs/client-address.md' }, inSettings(message)),
    );
  }
}

/** The library's own names of what is configured here; the longest first. */
const SETTINGS: readonly (readonly [RegExp, string])[] = [
  [/\btrustedProxies to \{ hops: 1 \}/g, 'server.client_address.trusted_hops to 1'],
  [/\btrustedProxies\.hops\b/g, 'server.client_address.trusted_hops'],
  [/\braise hops\b/g, 'raise server.client_address.trusted_hops'],
  [/\btrustedProxies\b/g, 'server.client_address.trusted_proxies'],
  [/\bsource\b/g, 'server.client_address.source'],
];

function inSettings(message: string): string {
  return SETTINGS.reduce((text, [option, setting]) => text.replaceAll(option, setting), message);
}
