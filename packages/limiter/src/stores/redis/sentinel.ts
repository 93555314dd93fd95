import { joinHostPort, splitHostPort } from '../../host-port.ts';
import type { NodeOptions, RedisNode } from './redis-node.ts';
import type { AddressDefaults, ServerAddress } from './server-address.ts';
import { openWatcher, type MasterWatch } from './watched-master.ts';

export interface SentinelParts {
  /** The name under which the sentinels know the master. */
  readonly masterName: string;
  readonly sentinels: readonly ServerAddress[];
  /** How to talk to the master, wherever it is. */
  readonly master: AddressDefaults;
  readonly options: NodeOptions;
}

/** The master that sentinels name. */
export function watchedBySentinels({ masterName, sentinels, master, options }: SentinelParts): MasterWatch {
  const watchers = sentinels.map((address) => openWatcher(address, options));
  return {
    name: masterName,
    watchers,
    find: async () => {
      const name = await namedByMajority(watchers.map((sentinel) => askSentinel(sentinel, masterName)));
      return name === undefined ? undefined : { ...master, ...splitHostPort(name) };
    },
    nameOf: (sentinel) => `sentinel ${sentinel.name}`,
    explain: () =>
      `No majority of the sentinels at ${sentinels.map(joinHostPort).join(', ')} names a master for ${masterName}: check the name and that they are up.`,
  };
}

async function askSentinel(sentinel: RedisNode, masterName: string): Promise<string | undefined> {
  const reply = await sentinel
    .call({ key: '', name: 'SENTINEL', args: ['GET-MASTER-ADDR-BY-NAME', masterName] })
    .catch(() => undefined);
  if (!Array.isArray(reply) || reply.length !== 2) return undefined;
  return joinHostPort({ host: String(reply[0]), port: Number(reply[1]) });
}

function majorityOf(count: number): number {
  return Math.floor(count / 2) + 1;
}

/**
 * The name that most of all configured sentinels give, as soon as they have; undefined if they do not. Not just most of
 * those that answer: one that is cut off from the others would lead us back to a master that has been replaced.
 */
function namedByMajority(votes: readonly Promise<string | undefined>[]): Promise<string | undefined> {
  const counts = new Map<string, number>();
  return new Promise((resolve) => {
    const counted = votes.map(async (vote) => {
      const name = await vote;
      if (name === undefined) return;
      const count = (counts.get(name) ?? 0) + 1;
      counts.set(name, count);
      if (count >= majorityOf(votes.length)) resolve(name);
    });
    void Promise.all(counted).then(() => resolve(undefined));
  });
}
