export interface ClientAddressOptions {
  readonly trustedProxies?: unknown;
  readonly source?: unknown;
  readonly ipv6Prefix?: unknown;
}

/** What a server knows about who sent a request. */
export interface AddressFacts {
  /** The address at the other end of the socket; undefined when there is none, as on a Unix socket. */
  readonly peer: string | undefined;
  /** Every line of a header, in order of arrival; the name is in lower case. */
  readonly headerLines: (name: string) => readonly string[];
}

export interface ClientAddress {
  readonly address: string | undefined;
  /** What to count the client under. */
  readonly key: string | undefined;
  readonly from: 'peer' | 'header';
  readonly oddity: undefined;
}

/** Finds out who sent a request. This version knows the peer of the socket only. */
export function clientAddress(_options: ClientAddressOptions = {}): (facts: AddressFacts) => ClientAddress {
  return ({ peer }) => ({ address: peer, key: peer, from: 'peer', oddity: undefined });
}
