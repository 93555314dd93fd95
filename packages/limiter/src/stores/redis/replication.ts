import { joinHostPort } from '../../host-port.ts';
import { processWarning } from '../../process-warning.ts';
import type { NodeOptions, RedisNode } from './redis-node.ts';
import type { ServerAddress } from './server-address.ts';
import { openWatcher, type MasterWatch } from './watched-master.ts';

/** A second server that calls itself the master is waited for that long; others are down. */
const SECOND_CLAIM_MS = 100;

/** The one of several servers that says that it is the master. They are asked themselves, in no order. */
export function watchedByRole(servers: readonly ServerAddress[], options: NodeOptions): MasterWatch {
  const watchers = servers.map((address) => openWatcher(address, options));
  const addressOf = new Map(servers.map((address) => [joinHostPort(address), address]));
  let known: readonly Role[] = [];
  let disputed = '';
  return {
    name: 'master',
    watchers,
    find: async () => {
      known = await settled(watchers.map(askRole));
      const masters = known.filter((role) => role.kind === 'master').toSorted(byClaim);
      disputed = tellDispute(masters, disputed, options);
      return addressOf.get(masters[0]?.server ?? '');
    },
    // The master itself is shown once, as what decides.
    nameOf: (server, master) => (server.name === master?.name ? undefined : `replica ${server.name}`),
    explain: () =>
      `None of the servers at ${servers.map(joinHostPort).join(', ')} is a master${known.map(asFollower).join('')}: name all of them, and check that they are up.`,
  };
}

type Role =
  | { readonly kind: 'master'; readonly server: string; readonly replicas: number; readonly offset: number }
  | { readonly kind: 'replica'; readonly server: string; readonly of: string };

/** `ROLE`: `master`, its offset and its replicas; or `slave` and the address of its master. */
async function askRole(server: RedisNode): Promise<Role | undefined> {
  const reply = await server.call({ key: '', name: 'ROLE', args: [] }).catch(() => undefined);
  if (!Array.isArray(reply)) return undefined;
  const list: readonly unknown[] = reply;
  const [kind, first, second] = list;
  if (kind === 'master') {
    const replicas = Array.isArray(second) ? second.length : 0;
    return { kind, server: server.name, replicas, offset: Number(first) };
  }
  if (kind !== 'slave') return undefined;
  const of = joinHostPort({ host: String(first), port: Number(second) });
  return { kind: 'replica', server: server.name, of };
}

/**
 * Two servers may call themselves the master, such as one that was replaced and is back. Every process has to choose
 * the same one, whatever the order of its list: the one that has replicas, or the one to which more was written.
 */
function byClaim(a: Role, b: Role): number {
  if (a.kind !== 'master' || b.kind !== 'master') return 0;
  return b.replicas - a.replicas || b.offset - a.offset || (a.server < b.server ? -1 : 1);
}

/** Told once; what was told is returned. */
function tellDispute(masters: readonly Role[], told: string, { observe }: NodeOptions): string {
  const [chosen] = masters;
  if (chosen === undefined || masters.length === 1) return '';
  const names = masters.map(({ server }) => server).toSorted();
  const dispute = `${names.join(' and ')} call themselves the master, and ${chosen.server} decides`;
  if (dispute !== told) {
    const message = `${dispute}: make the others its replicas with REPLICAOF. What was counted there is not known here.`;
    processWarning(message, 'SPILLGATE_TWO_MASTERS');
    observe({ type: 'warning', node: chosen.server, message });
  }
  return dispute;
}

function asFollower(role: Role): string {
  return role.kind === 'replica' ? `; ${role.server} follows ${role.of}` : '';
}

/** What the servers say: all of them, or once one is the master those that answer soon after it. */
function settled(questions: readonly Promise<Role | undefined>[]): Promise<readonly Role[]> {
  const roles: Role[] = [];
  return new Promise((resolve) => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const answers = questions.map(async (question) => {
      const role = await question;
      if (role === undefined) return;
      roles.push(role);
      if (role.kind === 'master') timer ??= setTimeout(() => resolve([...roles]), SECOND_CLAIM_MS);
    });
    void Promise.all(answers).then(() => {
      clearTimeout(timer);
      return resolve(roles);
    });
  });
}
