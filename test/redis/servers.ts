// Real Redis servers for tests, as quick as they can start. They listen on 127.0.0.1 only, and end with the process
// that started them.
import { join } from 'node:path';
import { type Certificates, createCertificates } from './certificates.ts';
import { allStarted, stopAll } from './group.ts';
import { type LaunchOptions, RedisServer } from './redis-server.ts';
import { reserve } from './reservation.ts';

export { type Certificates, createCertificates } from './certificates.ts';
export { type Cluster, type ClusterOptions, type SlotMove, startCluster } from './cluster.ts';
export { eventually } from './polling.ts';
export type { RedisServer } from './redis-server.ts';
export { type Replicated, type ReplicatedOptions, startReplicated } from './replicated.ts';
export { elementsOf, type Reply, ReplyError } from './resp.ts';
export type { RespConnection } from './resp-connection.ts';

export interface RedisOptions extends Pick<LaunchOptions, 'config' | 'password' | 'acl' | 'ownClock'> {
  readonly tls?: {
    readonly certificates: Certificates;
    /** Whether clients must show a certificate of the same authority. Default: `required`. */
    readonly clientCertificate?: 'required' | 'optional' | 'unused';
  };
}

export interface TlsServer {
  readonly server: RedisServer;
  readonly certificates: Certificates;
  /** The same certificates, for settings that want paths. */
  readonly files: Readonly<Record<'ca' | 'clientCert' | 'clientKey', string>>;
}

export interface Shards {
  readonly servers: readonly RedisServer[];
  stop(): Promise<void>;
}

/** One server with empty memory. */
export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  const { tls, config = [], ...rest } = options;
  if (tls === undefined) return RedisServer.launch(await reserve(), { ...rest, config });

  const { ca, server, client } = tls.certificates;
  return RedisServer.launch(await reserve(), {
    ...rest,
    tls: { ca, ...client },
    files: {
      'ca.crt': ca,
      'server.crt': server.cert,
      'server.key': server.key,
      'client.crt': client.cert,
      'client.key': client.key,
    },
    config: [
      'tls-ca-cert-file ca.crt',
      'tls-cert-file server.crt',
      'tls-key-file server.key',
      `tls-auth-clients ${AUTH_CLIENTS[tls.clientCertificate ?? 'required']}`,
      ...config,
    ],
  });
}

/** One server that speaks TLS only, with certificates made for it. */
export async function startTls(
  options: Omit<RedisOptions, 'tls'> & Omit<NonNullable<RedisOptions['tls']>, 'certificates'> = {},
): Promise<TlsServer> {
  const { clientCertificate = 'required', ...rest } = options;
  const certificates = await createCertificates();
  const server = await startRedis({ ...rest, tls: { certificates, clientCertificate } });
  const files = {
    ca: join(server.folder, 'ca.crt'),
    clientCert: join(server.folder, 'client.crt'),
    clientKey: join(server.folder, 'client.key'),
  };
  return { server, certificates, files };
}

/** Servers that know nothing of each other. */
export async function startShards(count: number, options: RedisOptions = {}): Promise<Shards> {
  const servers = await allStarted(Array.from({ length: count }, async () => startRedis(options)));
  return {
    servers,
    stop: async () => stopAll(servers),
  };
}

const AUTH_CLIENTS = { required: 'yes', optional: 'optional', unused: 'no' } as const;
