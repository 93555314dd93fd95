import { isIP } from 'node:net';
import { clientAddress } from 'spillgate/http';

const NO_LINES = (): readonly string[] => [];

/**
 * What clients are counted under, from how somebody writes their address: `2001:db8::/64` for `2001:DB8::1`, `192.0.2.1` for
 * `::ffff:192.0.2.1`. Networks of that length get their one spelling; what is neither stays as it is.
 */
export function addressKeys(ipv6Prefix: number): (text: string) => string {
  const clientOf = clientAddress({ ipv6Prefix });
  return (text) => {
    const [address = '', bits, ...rest] = text.split('/');
    if (isIP(address) === 0 || rest.length > 0) return text;
    const key = clientOf({ peer: address, headerLines: NO_LINES }).key ?? text;
    return bits === undefined || key.endsWith(`/${bits}`) ? key : text;
  };
}
