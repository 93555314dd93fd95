import { BlockList, isIPv6 } from 'node:net';
import type { LoggedRequest } from './logged-request.ts';

/** Some of the clients, to be counted apart from the others. */
export interface KeyClass {
  readonly name: string;
  readonly includes: (client: {
    readonly request: LoggedRequest;
    /** As the policies count it. */
    readonly keys: readonly string[];
    readonly plan: string | undefined;
  }) => boolean;
}

export const KEY_CLASSES = ['key', 'client', 'plan'];

/**
 * `key:acme-*` are the keys that look so, `client:10.0.0.0/8` the addresses in a network, `plan:gold` the API keys of a
 * plan. Undefined if that is no class.
 */
export function keyClass(kind: string, which: string): KeyClass | undefined {
  const name = `${kind}:${which}`;
  if (kind === 'plan') return { name, includes: ({ plan }) => plan === which };
  if (kind === 'key') {
    const pattern = new RegExp(
      `^${which.replaceAll(/[.+?^${}()|[\]\\/]/g, '\\$&').replaceAll('*', '.*')}$`,
      's',
    );
    return { name, includes: ({ keys }) => keys.some((key) => pattern.test(key)) };
  }
  const network = kind === 'client' ? networkOf(which) : undefined;
  if (network === undefined) return undefined;
  return { name, includes: ({ request: { client } }) => client !== undefined && network(client) };
}

function networkOf(text: string): ((address: string) => boolean) | undefined {
  const [, address = '', bits] = /^([\d.]+|[\da-f:.]+)(?:\/(\d+))?$/i.exec(text) ?? [];
  const isSix = isIPv6(address);
  const list = new BlockList();
  try {
    list.addSubnet(address, Number(bits ?? (isSix ? 128 : 32)), isSix ? 'ipv6' : 'ipv4');
  } catch {
    return undefined;
  }
  return (client) => list.check(client, isIPv6(client) ? 'ipv6' : 'ipv4');
}
