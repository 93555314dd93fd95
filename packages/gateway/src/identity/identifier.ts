import { cookieValue, headerValue, queryValue } from 'spillgate/http';
import type { JwtConfig } from '../config/schema/identity.ts';
import type { KeyRejection } from './api-keys/key-ring.ts';
import {
  KEY_CHALLENGE,
  NOBODY,
  TOKEN_CHALLENGE,
  type AcceptedKey,
  type Identifier,
  type Identity,
  type IdentityProblem,
  type ShownCredentials,
  type VerifiedToken,
} from './identity.ts';
import type { TokenRejection } from './jwt/signed-token.ts';

/** What became of something that a request showed. */
type IdentityOutcome = 'accepted' | 'unclear' | KeyRejection | TokenRejection;

/** Hears of everything that was shown, for metrics. */
type IdentityObserver = (kind: 'apiKey' | 'token', outcome: IdentityOutcome) => void;

export interface IdentifierParts {
  readonly apiKeys?:
    | { readonly places: CredentialPlaces; readonly find: (secret: string) => AcceptedKey | KeyRejection }
    | undefined;
  readonly jwt?:
    | {
        readonly places: CredentialPlaces;
        readonly onInvalid: JwtConfig['on_invalid'];
        readonly verify: (
          token: string,
        ) => VerifiedToken | TokenRejection | Promise<VerifiedToken | TokenRejection>;
      }
    | undefined;
  readonly observe: IdentityObserver;
}

/** Looks at everything that a request shows. What is wrong is wrong, also beside something that is right. */
export function createIdentifier({ apiKeys, jwt, observe }: IdentifierParts): Identifier {
  const keyOf = apiKeys === undefined ? undefined : credentialReader(apiKeys.places);
  const tokenOf = jwt === undefined ? undefined : credentialReader(jwt.places);

  const withKey = (request: ShownCredentials): Identity => {
    if (apiKeys === undefined || keyOf === undefined) return NOBODY;
    const shown = keyOf(request);
    if (shown.kind === 'none') return NOBODY;
    const found = shown.kind === 'secret' ? apiKeys.find(shown.secret) : shown.kind;
    observe('apiKey', typeof found === 'string' ? found : 'accepted');
    return typeof found === 'string' ? { problem: apiKeyProblem(found, apiKeys.places) } : { apiKey: found };
  };

  const withToken = (identity: Identity, found: VerifiedToken | TokenRejection | 'unclear'): Identity => {
    observe('token', typeof found === 'string' ? found : 'accepted');
    if (typeof found !== 'string') return { ...identity, token: found };
    if (jwt?.onInvalid === 'clientIP') return { ...identity, invalidToken: true };
    return { ...identity, problem: tokenProblem(found) };
  };

  const verified = (shown: Credential): Verified => {
    if (jwt === undefined || shown.kind === 'none') return undefined;
    return shown.kind === 'secret' ? jwt.verify(shown.secret) : shown.kind;
  };

  return {
    identify: (request) => {
      const identity = withKey(request);
      if (identity.problem !== undefined || tokenOf === undefined) return identity;
      const found = verified(tokenOf(request));
      if (found === undefined) return identity;
      return found instanceof Promise
        ? found.then((token) => withToken(identity, token))
        : withToken(identity, found);
    },
  };
}

type Verified =
  | VerifiedToken
  | TokenRejection
  | 'unclear'
  | undefined
  | Promise<VerifiedToken | TokenRejection>;

function apiKeyChallenge({ header_name: header }: CredentialPlaces): string {
  return header.toLowerCase() === 'authorization' ? TOKEN_CHALLENGE : KEY_CHALLENGE;
}

/** The same for every key that is not accepted: who guesses learns nothing. */
function apiKeyProblem(found: KeyRejection | 'unclear', places: CredentialPlaces): IdentityProblem {
  return {
    rejected: `apiKey ${found}`,
    status: 401,
    detail: 'The API key is not valid.',
    header: ['WWW-Authenticate', apiKeyChallenge(places)],
  };
}

function tokenProblem(rejection: TokenRejection | 'unclear'): IdentityProblem {
  const rejected = `token ${rejection}`;
  if (rejection === 'keysUnavailable') {
    return {
      rejected,
      status: 503,
      detail: 'Tokens cannot be checked at the moment.',
      header: ['Retry-After', '1'],
    };
  }
  const detail = rejection === 'expired' ? 'The token has expired.' : 'The token is not valid.';
  return {
    rejected,
    status: 401,
    detail,
    header: [
      'WWW-Authenticate',
      `${TOKEN_CHALLENGE}, error="invalid_token", error_description="${detail.slice(0, -1)}"`,
    ],
  };
}

/** Where a request may carry a secret. */
interface CredentialPlaces {
  readonly header_name: string;
  readonly cookie?: string | undefined;
  readonly query_parameter?: string | undefined;
}

/** What a request carries: one secret, none, or something that cannot be read in one way only. */
type Credential =
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
function credentialReader(places: CredentialPlaces): (request: ShownCredentials) => Credential {
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
