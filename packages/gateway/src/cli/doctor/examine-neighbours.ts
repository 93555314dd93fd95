import { connect } from 'node:net';
import { splitHostPort } from 'spillgate/internal';
import type { Config } from '../../config/config.ts';
import type { BackendServers } from '../../config/schema/backend.ts';
import { readUpstreamTls } from '../../proxy/upstreams/configured-upstreams.ts';
import { PooledUpstream } from '../../proxy/upstreams/pooled-upstream.ts';
import { fetchWhole } from '../../http-client/index.ts';
import { bad, good, reasonOf, warning, type DoctorFinding, type Examined } from './finding.ts';

/** The services that the gateway talks to: backends, and the one with the limits. */
export async function examineNeighbours({ config }: Examined): Promise<readonly DoctorFinding[]> {
  const backends = [config.backend, ...Object.values(config.backends)];
  return Promise.all([
    ...backends.flatMap((backend) => originsOf(backend).map((origin) => examineBackend(origin, backend))),
    ...limitsService(config).map(examineLimitsService),
  ]);
}

function originsOf({ url, upstreams }: BackendServers): readonly string[] {
  const urls = [...(url === undefined ? [] : [url]), ...upstreams.map((upstream) => upstream.url)];
  return [...new Set(urls.map((text) => new URL(text).origin))];
}

/** Asks as a health check does, over a connection as requests use it. */
async function examineBackend(origin: string, backend: BackendServers): Promise<DoctorFinding> {
  const subject = `backend ${origin}`;
  const upstream = new PooledUpstream(origin, {
    settings: {
      ...backend,
      backend_protocol: backend.transport.backend_protocol,
    },
    tls: readUpstreamTls(backend.transport.tls),
    dialTimeoutMs: backend.transport.dial_timeout,
  });
  const { path, enabled } = backend.health_check;
  try {
    const { status } = await fetchWhole(upstream.pool, {
      method: 'GET',
      path,
      headers: ['host', new URL(origin).host, 'user-agent', 'spillgate-doctor', 'accept', '*/*'],
      maxBodyBytes: () => 0,
      signal: AbortSignal.timeout(backend.transport.dial_timeout),
    });
    if (!enabled || (status >= 200 && status < 400)) return good(subject, `answers (${path}: ${status})`);
    return bad(
      subject,
      `answers ${status} to its health check ${path}, so it gets no requests`,
      'Set backend.health_check.path to a page that answers 200 to 399.',
    );
  } catch (failure) {
    return bad(subject, `does not answer (${reasonOf(failure)})`, fixOf(reasonOf(failure)));
  } finally {
    await upstream.close({ force: true });
  }
}

function fixOf(reason: string): string {
  if (/CERT|certificate|self[- ]signed|SSL|TLS/i.test(reason)) {
    return 'Name its authority in backend.transport.tls.ca_file, or its name in server_name.';
  }
  if (/ENOTFOUND|EAI_AGAIN/.test(reason))
    return 'The name does not resolve here: check it, and the DNS of this machine.';
  return 'Start it, or correct backend.url.';
}

interface LimitsServiceAddress {
  readonly host: string;
  readonly port: number;
}

function limitsService({ rate_limit: { external } }: Config): readonly LimitsServiceAddress[] {
  if (!external.enabled) return [];
  if (external.grpc !== undefined) {
    return [splitHostPort(external.grpc.address)];
  }
  if (external.http === undefined) return [];
  const { hostname: host, port, protocol } = new URL(external.http.url);
  return [{ host, port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port) }];
}

const CONNECT_WITHIN_MS = 5000;

/** Only whether it can be reached: a question would count as one of its client's. */
async function examineLimitsService({ host, port }: LimitsServiceAddress): Promise<DoctorFinding> {
  const subject = `limits service ${host}:${port}`;
  try {
    await new Promise<void>((resolve, reject) => {
      const socket = connect({ host: host.replaceAll(/[[\]]/g, ''), port, timeout: CONNECT_WITHIN_MS });
      socket.once('connect', () => {
        socket.destroy();
        resolve();
      });
      socket.once('timeout', () => socket.destroy(new Error(`no answer within ${CONNECT_WITHIN_MS} ms`)));
      socket.once('error', reject);
    });
    return good(subject, 'can be reached');
  } catch (failure) {
    return warning(
      subject,
      `cannot be reached (${reasonOf(failure)}): every key gets the static limits`,
      'Start it, or correct rate_limit.external.',
    );
  }
}
