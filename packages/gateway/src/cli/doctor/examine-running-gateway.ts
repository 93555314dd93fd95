import { z } from 'zod';
import { askAdmin, CommandFailure, type AdminClientOptions } from '../admin-client.ts';
import type { Host } from '../host.ts';
import { bad, good, warning, type DoctorFinding } from './finding.ts';

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
