import { clientAddress, peerTrust, type ClientAddress } from 'spillgate/http';
import type { Config } from '../../config/config.ts';
import type { HeaderList } from './header-list.ts';

/** What a configuration says about reading requests, made once for all of them. */
export interface ReadingRules {
  readonly config: Config;
  readonly requestIdHeader: string;
  /** Without headers: where none of them could say who the client is. */
  clientOf(peer: string | undefined, headers: HeaderList | undefined): ClientAddress;
  /** What a connection is counted by: the address of its peer, or the network of that. */
  keyOfPeer(peer: string | undefined): string | undefined;
  /** Whether the peer may say who the client is. */
  trustsPeer(peer: string | undefined): boolean;
  /** Headers that say who or what a request is about: nobody can have them removed by naming them in `Connection`. */
  readonly lasting: ReadonlySet<string>;
  /** Headers of a client that are not forwarded: those of one hop, those that are ours, and those that the configuration removes. */
  readonly notForwarded: ReadonlySet<string>;
}

const known = new WeakMap<Config, ReadingRules>();

export function readingRules(config: Config): ReadingRules {
  const found = known.get(config);
  if (found !== undefined) return found;
  const made = makeRules(config);
  known.set(config, made);
  return made;
}

const LASTING = [
  'host',
  'content-length',
  'content-type',
  'content-encoding',
  'authorization',
  'cookie',
  'forwarded',
  'via',
  'traceparent',
  'tracestate',
];

/** RFC 9110 §7.6.1, and what belongs to our own connection with the client. `Trailer`: trailers of requests are not forwarded. */
const ONE_HOP = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  'expect',
  'host',
];
const OURS = ['via', 'forwarded'];

const NO_LINES = (): readonly string[] => [];

function makeRules(config: Config): ReadingRules {
  const { trusted_proxies, trusted_hops, source, ipv6_prefix } = config.server.client_address;
  const options = {
    trustedProxies: trusted_hops === undefined ? trusted_proxies : { hops: trusted_hops },
    source,
    ipv6Prefix: ipv6_prefix,
  };
  const addressOf = clientAddress(options);
  const ofPeer = (peer: string | undefined): ClientAddress => addressOf({ peer, headerLines: NO_LINES });
  const requestIdHeader = config.server.request_id_header.toLowerCase();
  return {
    config,
    requestIdHeader,
    clientOf: (peer, headers) =>
      addressOf({ peer, headerLines: headers === undefined ? NO_LINES : (name) => headers.lines(name) }),
    keyOfPeer: (peer) => ofPeer(peer).key,
    trustsPeer: peerTrust(options),
    notForwarded: new Set([
      ...ONE_HOP,
      ...OURS,
      requestIdHeader,
      ...config.backend.remove_request_headers.map((name) => name.toLowerCase()),
    ]),
    lasting: new Set([...LASTING, requestIdHeader, ...headerNames(config.rate_limit)]),
  };
}

/** Every header that rules read, wherever it stands below `rate_limit`. */
function headerNames(value: unknown): readonly string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]: [string, unknown]) => {
    if (name === 'header_name' && typeof inner === 'string') return [inner.toLowerCase()];
    const own =
      name === 'header' && typeof inner === 'object' && inner !== null
        ? Object.keys(inner).map((key) => key.toLowerCase())
        : [];
    return [...own, ...headerNames(inner)];
  });
}
