import { connect } from 'node:net';
import { splitHostPort } from 'spillgate/internal';
import { z } from 'zod';
import type { Config } from '../../config/config.ts';
import type { BackendServers } from '../../config/schema/backend.ts';
import { fetchWhole } from '../../http-client/index.ts';
import { readUpstreamTls } from '../../proxy/upstreams/configured-upstreams.ts';
import { PooledUpstream } from '../../proxy/upstreams/pooled-upstream.ts';
import { askAdmin, type AdminClientOptions } from '../admin-client.ts';
import { type Host, CommandFailure } from '../host.ts';
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

interface ExaminedGateway {
  readonly runs: boolean;
  readonly findings: readonly DoctorFinding[];
}

/** What a gateway that runs here has met. */
export async function examineRunningGateway(
  host: Host,
  options: AdminClientOptions,
): Promise<ExaminedGateway> {
  try {
    const { body } = await askAdmin(host, options, { method: 'GET', path: '/metrics', text: true });
    const metrics = String(body);
    const untrusted = valueOf(
      metrics,
      'spillgate_gateway_client_address_oddities_total',
      'oddity="untrustedHeader"',
    );
    const refused = valueOf(metrics, 'spillgate_gateway_last_reload_successful', '') === 0;
    const senders = untrusted > 0 ? await untrustedSenders(host, options) : [];
    return { runs: true, findings: [examineReload(refused), examineProxies(untrusted, senders)] };
  } catch (failure) {
    if (!(failure instanceof CommandFailure)) throw failure;
    return { runs: false, findings: [] };
  }
}

function examineReload(refused: boolean): DoctorFinding {
  if (!refused) return good('running gateway', 'runs the configuration of its file');
  return bad(
    'running gateway',
    'has refused the file as it is now, and runs an older one',
    'See its log, or: spillgate check FILE.',
  );
}

function examineProxies(requests: number, senders: readonly string[]): DoctorFinding {
  const subject = 'trusted proxies';
  if (requests === 0) return good(subject, 'no request named its client without being trusted to');
  const seen = senders.length === 0 ? '' : `, the latest from ${senders.join(', ')}`;
  return warning(
    subject,
    `${requests} ${requests === 1 ? 'request' : 'requests'} named a client in a header, but came from an address that is not trusted${seen}`,
    'If that is your proxy, list it in server.client_address.trusted_proxies: until then all its clients count as one.',
  );
}

const DECISIONS_ASKED = 200;
const MAX_SENDERS = 5;

const decisionsShape = z.object({
  decisions: z.array(z.object({ client: z.string().optional(), addressOddity: z.string().optional() })),
});

/** The addresses that the latest of these requests came from, as far as their decisions are kept. */
async function untrustedSenders(host: Host, options: AdminClientOptions): Promise<readonly string[]> {
  const path = `/v1/decisions?limit=${DECISIONS_ASKED}`;
  const { body } = await askAdmin(host, options, { method: 'GET', path });
  const read = decisionsShape.safeParse(body);
  const decisions = read.success ? read.data.decisions : [];
  const senders = decisions.flatMap(({ client, addressOddity }) =>
    addressOddity === 'untrustedHeader' && client !== undefined ? [client] : [],
  );
  return [...new Set(senders)].slice(0, MAX_SENDERS);
}

/** Of a series in the text format of Prometheus; 0 if it is not there. */
function valueOf(metrics: string, name: string, labels: string): number {
  const line = metrics.split('\n').find((one) => one.startsWith(name) && one.includes(labels));
  return Number(line?.slice(line.lastIndexOf(' ') + 1) ?? 0);
}
