import { lookup as systemLookup, type LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { createConnector, type Connector, type ConnectorOptions } from './connector.ts';
import { UpstreamError } from './upstream-error.ts';
import type { UrlPolicy } from './url-policy.ts';

/** All addresses of a name. */
export type ResolveAll = (
  host: string,
  callback: (failure: Error | null, addresses: readonly LookupAddress[]) => void,
) => void;

export interface GuardedConnectorOptions extends ConnectorOptions {
  readonly policy: UrlPolicy;
  readonly port: number;
  /** Left out: the system's resolver. */
  readonly resolve?: ResolveAll | undefined;
}

/**
 * Opens connections only to addresses that the policy allows. The address that was checked is the address that is dialled: names are looked up
 * once, inside of the call that connects, and addresses written out, for which no lookup is made, are checked before it.
 */
export function createGuardedConnector({
  policy,
  port,
  resolve,
  ...options
}: GuardedConnectorOptions): Connector {
  const connect = createConnector({ ...options, lookup: checkedLookup({ policy, port, resolve }) });
  return (target, callback) => {
    const { hostname } = target;
    if (isIP(hostname) !== 0 && policy.refusesAddress({ host: hostname, port }, hostname)) {
      callback(forbidden(hostname, hostname), null);
      return;
    }
    connect(target, (...result) => {
      const [failure, socket] = result;
      // It cannot be another one than was checked; this is for the day when a change of Node.js or undici makes it one.
      const address = socket?.remoteAddress;
      if (
        failure === null &&
        (address === undefined || policy.refusesAddress({ host: hostname, port }, address))
      ) {
        socket.destroy();
        callback(forbidden(hostname, String(address)), null);
        return;
      }
      callback(...result);
    });
  };
}

type Guard = Pick<GuardedConnectorOptions, 'policy' | 'port' | 'resolve'>;

function checkedLookup({ policy, port, resolve = resolveBySystem }: Guard): LookupFunction {
  return (host, options, callback) => {
    resolve(host, (failure, addresses) => {
      if (failure !== null) {
        callback(failure, '');
        return;
      }
      // One bad address spoils them all: who controls the name decides which of them is tried first.
      const bad = addresses.find(({ address }) => policy.refusesAddress({ host, port }, address));
      const [first] = addresses;
      if (bad !== undefined || first === undefined) {
        callback(forbidden(host, bad?.address ?? 'no address'), '');
        return;
      }
      if (options.all === true) callback(null, [...addresses]);
      else callback(null, first.address, first.family);
    });
  };
}

const resolveBySystem: ResolveAll = (host, callback) => {
  systemLookup(host, { all: true }, callback);
};

function forbidden(host: string, address: string): UpstreamError {
  const message = `${host} leads to ${address}, which backend.url_policy does not allow`;
  return new UpstreamError('ADDRESS_FORBIDDEN', message);
}
