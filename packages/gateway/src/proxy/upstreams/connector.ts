import { isIP, type LookupFunction, type OnReadOpts, type Socket } from 'node:net';
import { buildConnector } from 'undici';
import type { Config } from '../../config/config.ts';
import { readNamedFile } from '../../config/problem.ts';

export type Connector = buildConnector.connector;

/** What TLS to upstreams needs, read from its files. */
export interface UpstreamTls {
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
  readonly serverName: string | undefined;
  readonly rejectUnauthorized: boolean;
}

/** Reads the certificates for connections to upstreams; throws a `SettingError`. */
export function readUpstreamTls(tls: Config['backend']['transport']['tls']): UpstreamTls {
  const read = (name: 'ca_file' | 'cert_file' | 'key_file'): string | undefined =>
    readNamedFile(['backend', 'transport', 'tls', name], tls[name]);
  return {
    ca: read('ca_file'),
    cert: read('cert_file'),
    key: read('key_file'),
    serverName: tls.server_name,
    rejectUnauthorized: !tls.insecure_skip_verify,
  };
}

export interface ConnectorOptions {
  readonly tls: UpstreamTls;
  readonly dialTimeoutMs: number;
  /** Offers HTTP/2 in the TLS handshake. */
  readonly http2: boolean;
  readonly lookup?: LookupFunction | undefined;
  /** Reading may end before writing does: tunnels need that, HTTP does not. */
  readonly halfOpen?: boolean | undefined;
  /** Who gets the bytes, instead of the socket's readers. */
  readonly onread?: OnReadOpts | undefined;
}

/** Opens connections for a pool. The name that TLS verifies is ours alone: what a request asks for does not change it. */
export function createConnector({
  tls,
  dialTimeoutMs,
  http2,
  lookup,
  halfOpen = false,
  onread,
}: ConnectorOptions): Connector {
  const connect = buildConnector({
    allowH2: http2,
    allowHalfOpen: halfOpen,
    timeout: dialTimeoutMs,
    rejectUnauthorized: tls.rejectUnauthorized,
    ...(tls.ca === undefined ? {} : { ca: tls.ca }),
    ...(tls.cert === undefined ? {} : { cert: tls.cert }),
    ...(tls.key === undefined ? {} : { key: tls.key }),
    ...(lookup === undefined ? {} : { lookup }),
    ...(onread === undefined ? {} : { onread }),
  });
  return ({ servername: _asked, ...target }, callback) => {
    const servername = tls.serverName ?? (isIP(target.hostname) === 0 ? target.hostname : undefined);
    connect({ ...target, ...(servername === undefined ? {} : { servername }) }, callback);
  };
}

/** Opens one connection to an origin. */
export async function dial(origin: string, connect: Connector): Promise<Socket> {
  const target = targetOf(origin);
  return new Promise((resolve, reject) => {
    connect(target, (failure, socket) => {
      if (failure === null) resolve(socket);
      else reject(failure);
    });
  });
}

export interface Target {
  readonly protocol: string;
  /** As `Host` names it. */
  readonly host: string;
  /** Without brackets. */
  readonly hostname: string;
  readonly port: string;
}

export function targetOf(origin: string): Target {
  const { protocol, hostname, host, port } = new URL(origin);
  return { protocol, host, hostname: hostname.replace(/^\[|\]$/g, ''), port };
}
