import { cookieValue, headerValue, queryValue } from 'spillgate/http';
import type { ShownCredentials } from './identity.ts';

/** Where a request may carry a secret. */
export interface CredentialPlaces {
  readonly header_name: string;
  readonly cookie?: string | undefined;
  readonly query_parameter?: string | undefined;
}

/** What a request carries: one secret, none, or something that cannot be read in one way only. */
export type Credential =
  | { readonly kind: 'none' }
  | { readonly kind: 'unclear' }
  | { readonly kind: 'secret'; readonly secret: string };

const NONE: Credential = { kind: 'none' };
const UNCLEAR: Credential = { kind: 'unclear' };

/** RFC 6750 §2.1, and RFC 9110 §11.1: the name of a scheme has no case. */
const BEARER = /^bearer +([^ ]+)$/i;

/**
 * Reads a secret from the places where it may stand. One that stands in two of them, or twice in one, is unclear: a
 * backend could take another one than the gateway.
 */
export function credentialReader(places: CredentialPlaces): (request: ShownCredentials) => Credential {
  const header = places.header_name.toLowerCase();
  const { cookie, query_parameter: parameter } = places;
  const ofAuthorization = header === 'authorization';
  return ({ headers, query }) => {
    const values = [
      headerValue(headers.lines(header), header),
      ...(cookie === undefined ? [] : [cookieValue(headers.lines('cookie'), cookie)]),
      ...(parameter === undefined ? [] : [queryValue(query, parameter)]),
    ];
    let found: string | undefined;
    for (const [at, value] of values.entries()) {
      if (typeof value === 'object') {
        if (value.missing) continue;
        return UNCLEAR;
      }
      const bearer = at === 0 ? BEARER.exec(value)?.[1] : undefined;
      // Basic and others are for somebody else.
      if (at === 0 && ofAuthorization && !/^bearer(?: |$)/i.test(value)) continue;
      if (found !== undefined || (at === 0 && ofAuthorization && bearer === undefined)) return UNCLEAR;
      found = bearer ?? value;
    }
    return found === undefined ? NONE : { kind: 'secret', secret: found };
  };
}
