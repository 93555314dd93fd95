import type { Config } from '../config/config.ts';
import { AddressList } from './address-list.ts';
import type { KeyReader } from './key-reader.ts';

type KeyList = Config['rate_limit']['allow'];

/** Who is on a list: of the whole configuration, or of a rule. Undefined where the list is empty. */
export interface AccessList {
  readonly addresses: AddressList | undefined;
  /** Keys as each reader of the rule reads them, in its order. */
  readonly keys: readonly ReadonlySet<string>[] | undefined;
}

/** `isMeant` says by which readers the keys of the list are meant. */
export function accessList(
  { cidrs, keys }: KeyList,
  readers: readonly KeyReader[],
  isMeant: (reader: KeyReader) => boolean,
): AccessList | undefined {
  if (cidrs.length === 0 && keys.length === 0) return undefined;
  return {
    addresses: cidrs.length === 0 ? undefined : new AddressList(cidrs),
    keys:
      keys.length === 0
        ? undefined
        : readers.map((reader) => new Set(isMeant(reader) ? keys.map((key) => reader.written(key)) : [])),
  };
}

/** Whether a client is on the list by its address or by one of its keys; what was no key is on no list. */
export function isListed(
  { addresses, keys }: AccessList,
  address: string | undefined,
  read: readonly unknown[],
): boolean {
  if (addresses !== undefined && address !== undefined && addresses.has(address)) return true;
  return keys !== undefined && keys.some((set, at) => isIn(set, read[at]));
}

function isIn(set: ReadonlySet<string>, key: unknown): boolean {
  return typeof key === 'string' && set.has(key);
}
