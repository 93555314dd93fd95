import { createHash, timingSafeEqual } from 'node:crypto';
import { createLimiter, memoryStore, tokenBucket } from 'spillgate';
import { clientAddress } from 'spillgate/http';

/** Wrong tokens that one address may send. */
export const WRONG_TOKENS = { average: 10, burst: 10, period: '1m' } as const;
/** How long to wait for another try. */
export const WRONG_TOKEN_WAIT_SECONDS: number = Math.ceil(60 / WRONG_TOKENS.average);
const MAX_ADDRESSES = 10_000;
const MAX_AUTHORIZATION_LENGTH = 4096;

/** What is known about the token that a request showed. `readOnly`: the one of those who change nothing. */
export type TokenStanding = 'accepted' | 'readOnly' | 'missing' | 'wrong' | 'tooManyWrong';

/** Those that are accepted. */
export interface AcceptedTokens {
  /** Undefined: everybody is. */
  readonly token: string | undefined;
  readonly readOnly?: string | undefined;
}

/** Compares tokens without telling anything about them, and slows down those who guess. */
export function bearerTokens(): (
  peer: string | undefined,
  authorization: string,
  accepted: AcceptedTokens,
) => TokenStanding {
  const limiter = createLimiter({ store: memoryStore({ maxKeys: MAX_ADDRESSES }) });
  const wrongTokens = tokenBucket({ name: 'wrong-tokens', ...WRONG_TOKENS });
  const addressOf = clientAddress();
  return (peer, authorization, { token, readOnly }) => {
    if (token === undefined) return 'accepted';
    // Nobody guessed anything: a client that was not given the token must not lock out its neighbours.
    if (authorization === '') return 'missing';
    const { key } = addressOf({ peer, headerLines: () => [] });
    const limit = wrongTokens.for(key ?? 'unknown');
    // Looked at before the token: else every guess would be answered.
    if (limiter.checkSync(limit, { cost: 0 }).remaining === 0) return 'tooManyWrong';
    if (isToken(authorization, token)) return 'accepted';
    if (readOnly !== undefined && isToken(authorization, readOnly)) return 'readOnly';
    limiter.checkSync(limit);
    return 'wrong';
  };
}

/** Digests have one length, so the comparison tells nothing of the token's. */
function isToken(authorization: string, token: string): boolean {
  if (authorization.length > MAX_AUTHORIZATION_LENGTH) return false;
  const [, sent = ''] = /^Bearer +(.+)$/i.exec(authorization) ?? [];
  // Node reads the bytes of a header as Latin-1, whatever they were meant to be.
  return timingSafeEqual(digest(Buffer.from(sent, 'latin1')), digest(Buffer.from(token)));
}

function digest(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest();
}
