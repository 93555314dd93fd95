import { LimiterError, show } from '../errors.ts';
import type { AddressFacts, AddressOddity, ClientAddress } from './client-address.ts';
import { FORWARDING_HEADERS, leftmostAddress, NAMING_HEADERS, parseNode } from './forwarding-headers.ts';
import { formatAddress, withoutNat64 } from './ip-address.ts';
import { presetOf } from './trusted-proxies.ts';

/** So many requests have to name a client before a shared address is called a mistake. */
export const REQUESTS_WATCHED = 1000;
/** The instances of one proxy have several addresses; with more than this many, clients are told apart. */
export const MAX_SHARED_ADDRESSES = 8;
/** A shared address stands for at least this many clients. */
const MIN_CLIENTS_PER_ADDRESS = 2;

/**
 * Notices two mistakes of configuration and says each of them once: a proxy that is not trusted (`PROXY_NOT_TRUSTED`),
 * and different clients that are counted as one (`SHARED_ADDRESS`). Feed it with every request and what
 * `clientAddress()` made of it. It remembers at most a few dozen addresses. Default: prints the warning with
 * `console.warn`.
 *
 * @example
 * const watch = watchProxies((warning) => log.warn(warning.message));
 * watch(clientOf(facts), facts);
 */
export function watchProxies(
  onWarning: (warning: LimiterError) => unknown = print,
): (client: ClientAddress, facts: AddressFacts) => void {
  let trustIsOpen = true;
  let sharing: SharingWatch | undefined = new SharingWatch();

  return (client, facts) => {
    if (trustIsOpen && client.oddity === 'untrustedHeader') {
      trustIsOpen = false;
      say(notTrusted(facts), onWarning);
    }
    const outcome = sharing?.look(client, facts);
    if (outcome === undefined) return;
    sharing = undefined;
    if (outcome !== 'toldApart') say(outcome, onWarning);
  };
}

class SharingWatch {
  private requests = 0;
  private readonly keys = new Set<string>();
  private readonly clients = new Set<string>();

  /** Undefined as long as it is open whether clients are told apart. */
  look(client: ClientAddress, facts: AddressFacts): 'toldApart' | LimiterError | undefined {
    const named = clientNamedIn(facts);
    // What names nobody says nothing: health checks come without a header, and from addresses of their own.
    if (named === undefined || client.key === undefined) return undefined;
    if (client.from === 'header' && client.address === named.address) return 'toldApart';
    this.requests += 1;
    this.keys.add(client.key);
    if (this.keys.size > MAX_SHARED_ADDRESSES) return 'toldApart';
    if (this.clients.size < MAX_SHARED_ADDRESSES * MIN_CLIENTS_PER_ADDRESS) this.clients.add(named.address);
    const enough =
      this.requests >= REQUESTS_WATCHED && this.clients.size >= this.keys.size * MIN_CLIENTS_PER_ADDRESS;
    return enough ? this.shared(client, named.header) : undefined;
  }

  private shared(client: ClientAddress, header: string): LimiterError {
    const others = this.keys.size === 1 ? '' : ` and ${this.keys.size - 1} more`;
    return new LimiterError(
      'SHARED_ADDRESS',
      `${this.requests} requests name at least ${this.clients.size} different clients in ${header}, but were all counted under ${client.key}${others}: ${reasonFor(client, header)}.`,
    );
  }
}

const REASONS: Readonly<Record<AddressOddity, string>> = {
  untrustedHeader: 'if this is your proxy, add it to trustedProxies',
  tooFewHops: 'the header has fewer entries than trustedProxies.hops; lower it to the number of your proxies',
  junk: 'the entries that your proxy appends are no addresses; look at what it writes',
  tooManyEntries: 'every entry is a trusted proxy; trust fewer ranges',
};

function reasonFor({ oddity, from }: ClientAddress, header: string): string {
  if (oddity !== undefined) return REASONS[oddity];
  return from === 'header'
    ? 'if this is a proxy of yours too, add it to trustedProxies or raise hops'
    : `the proxy does not send the header that source names; let it, or set source if ${header} is the other one`;
}

function notTrusted(facts: AddressFacts): LimiterError {
  const peer = facts.peer === undefined ? undefined : parseNode(facts.peer);
  const header =
    FORWARDING_HEADERS.find((name) => facts.headerLines(name).length > 0) ?? FORWARDING_HEADERS[0];
  if (peer === undefined) {
    return new LimiterError(
      'PROXY_NOT_TRUSTED',
      `A request carries ${header}, but the address of its sender is unknown (${show(facts.peer)}), so the header was ignored. If a proxy always stands in front, set trustedProxies to { hops: 1 }, or to the number of proxies.`,
    );
  }
  const address = formatAddress(peer);
  return new LimiterError(
    'PROXY_NOT_TRUSTED',
    `${address} sent ${header}, but is not in trustedProxies, so the header was ignored. If it is your proxy, all clients behind it are counted as one: set trustedProxies to ['${presetOf(peer) ?? address}']. If it is a client, there is nothing to do.`,
  );
}

function clientNamedIn(
  facts: AddressFacts,
): { readonly header: string; readonly address: string } | undefined {
  if (facts.isDirect === true) return undefined;
  for (const header of NAMING_HEADERS) {
    const address = leftmostAddress(header, facts.headerLines(header));
    if (address !== undefined) return { header, address: formatAddress(withoutNat64(address)) };
  }
  return undefined;
}

/** A listener that fails must neither fail the request nor disappear. */
function say(warning: LimiterError, onWarning: (warning: LimiterError) => unknown): void {
  try {
    const pending = onWarning(warning);
    if (pending instanceof Promise) pending.catch(complain);
  } catch (error) {
    complain(error);
  }
}

function complain(error: unknown): void {
  // oxlint-disable-next-line no-console -- the only place left that somebody may look at
  console.error('spillgate: the listener for proxy warnings failed:', error);
}

function print(warning: LimiterError): void {
  // oxlint-disable-next-line no-console -- a wrong limit for everybody has to be heard, and the application named no other place
  console.warn(`spillgate: ${warning.code}: ${warning.message}`);
}
