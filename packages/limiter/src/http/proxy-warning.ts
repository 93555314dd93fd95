import type { LimiterError } from '../errors.ts';
import type { AddressFacts, ClientAddress } from './client-address.ts';

/** Notices proxies that are not trusted. This version trusts none, and so has nothing to notice. */
export function watchProxies(
  _onWarning?: (warning: LimiterError) => unknown,
): (client: ClientAddress, facts: AddressFacts) => void {
  return () => undefined;
}
