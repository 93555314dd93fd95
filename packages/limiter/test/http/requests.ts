import {
  clientAddress,
  type AddressFacts,
  type ClientAddress,
  type ClientAddressOptions,
} from '../../src/http/client-address.ts';

export type Headers = Readonly<Record<string, string | readonly string[]>>;

/** A proxy that `'private'` trusts, and a client that it does not. */
export const PROXY = '10.0.0.1';
export const CLIENT = '203.0.113.7';

/** What an adapter would hand over for a request with these headers. */
export function request(peer: string | undefined, headers: Headers = {}): AddressFacts {
  const lines = new Map(Object.entries(headers).map(([name, value]) => [name, [value].flat()]));
  return { peer, headerLines: (name) => lines.get(name) ?? [] };
}

export function clientOf(
  options: ClientAddressOptions,
  peer: string | undefined,
  headers?: Headers,
): ClientAddress {
  return clientAddress(options)(request(peer, headers));
}

/** Key, where it came from, and what was odd. */
export function summary({ key, from, oddity }: ClientAddress): readonly unknown[] {
  return oddity === undefined ? [key, from] : [key, from, oddity];
}

export function xff(...lines: readonly string[]): Headers {
  return { 'x-forwarded-for': lines };
}
