import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { createLimiter, memoryStore, tokenBucket, type Limit } from 'spillgate';
import { clientAddress } from 'spillgate/http';
import { shown } from '../config/shown.ts';
import type { Config } from '../config/config.ts';
import type { Log } from '../telemetry/log.ts';
import { AdminProblem } from './problems.ts';

/** Wrong tokens that one address may send. */
const WRONG_TOKENS = { average: 10, burst: 10, period: '1m' } as const;
const MAX_ADDRESSES = 10_000;
const MAX_AUTHORIZATION_LENGTH = 4096;
const JSON_TYPE = /^application\/json *(?:;|$)/i;

/** Decides who may call what. Each method throws the problem that ends the request. */
export interface AdminGuard {
  requireHost(request: IncomingMessage): void;
  requireToken(request: IncomingMessage): void;
  /** Only for requests that change something. */
  requireSameSite(request: IncomingMessage): void;
}

export function createGuard(config: () => Config['admin'], log: Log): AdminGuard {
  const limiter = createLimiter({ store: memoryStore({ maxKeys: MAX_ADDRESSES }) });
  const wrongTokens = tokenBucket({ name: 'wrong-tokens', ...WRONG_TOKENS });
  const addressOf = clientAddress();
  const limitFor = (request: IncomingMessage): Limit => {
    const { key } = addressOf({ peer: request.socket.remoteAddress, headerLines: () => [] });
    return wrongTokens.for(key ?? 'unknown');
  };
  return {
    requireHost(request) {
      const served = servedHosts(config(), request.socket);
      const host = hostOf(request);
      if (served.includes(host)) return;
      throw new AdminProblem(
        'MISDIRECTED_HOST',
        `The host is ${shown(host)}; expected one of ${served.join(', ')}: ask for one of these, or add it to admin.allowed_hosts.`,
      );
    },
    requireToken(request) {
      const { token } = config();
      if (token === undefined) return;
      const { authorization = '' } = request.headers;
      // Nobody guessed anything: a client that was not given the token must not lock out its neighbours.
      if (authorization === '') {
        log.debug({ remote: request.socket.remoteAddress }, 'a request to the admin server had no token');
        throw tokenRequired();
      }
      const limit = limitFor(request);
      // Looked at before the token: else every guess would be answered.
      const standing = limiter.checkSync(limit, { cost: 0 });
      if (standing.remaining === 0) throw tooManyFailures(request);
      if (isToken(authorization, token)) return;
      limiter.checkSync(limit);
      log.warn({ remote: request.socket.remoteAddress }, 'a request to the admin server had no valid token');
      throw tokenRequired();
    },
    requireSameSite,
  };
}

const LOOPBACK_HOSTS = ['localhost', '127.0.0.1', '[::1]'] as const;
/** An address that listens everywhere names no host. */
const NO_HOSTS = new Set(['', '0.0.0.0', '[::]']);

/**
 * In lower case, without port. Those that nobody had to write down are safe: for DNS rebinding a page has to have a name of the attacker's,
 * which is never one of loopback, the operator's own, or the very address that the connection came to.
 */
function servedHosts(
  { address, allowed_hosts: allowed }: Config['admin'],
  { localAddress = '' }: Socket,
): readonly string[] {
  const own = [withoutPort(address), hostOfAddress(localAddress)].filter((host) => !NO_HOSTS.has(host));
  return [...new Set([...LOOPBACK_HOSTS, ...own, ...allowed].map((name) => name.toLowerCase()))];
}

/** As a client writes it into Host. */
function hostOfAddress(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, '');
  return plain.includes(':') ? `[${plain}]` : plain;
}

function tokenRequired(): AdminProblem {
  return new AdminProblem(
    'TOKEN_REQUIRED',
    'Send the token of the gateway as "Authorization: Bearer ..."; it is the setting admin.token.',
    { headers: { 'www-authenticate': 'Bearer realm="spillgate"' } },
  );
}

function tooManyFailures({ socket }: IncomingMessage): AdminProblem {
  const waitSeconds = Math.ceil(60 / WRONG_TOKENS.average);
  return new AdminProblem(
    'TOO_MANY_FAILURES',
    `${socket.remoteAddress ?? 'This address'} sent ${WRONG_TOKENS.burst} wrong tokens; expected at most ${WRONG_TOKENS.average} in a minute: wait ${waitSeconds} seconds, then send the right one.`,
    { headers: { 'retry-after': String(waitSeconds) } },
  );
}

/** The host that was asked for in lower case and without port. */
function hostOf({ headersDistinct }: IncomingMessage): string {
  const [host = '', second] = headersDistinct['host'] ?? [];
  if (second !== undefined) {
    throw new AdminProblem('INVALID_REQUEST', 'The request names two hosts; expected one Host header.');
  }
  return withoutPort(host.toLowerCase());
}

function withoutPort(host: string): string {
  return host.replace(/:\d{1,5}$/, '');
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

/** A page of another site can make a browser send requests, but not with our origin and not with JSON. */
function requireSameSite({ headers, headersDistinct, method }: IncomingMessage): void {
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin' && site !== 'none') {
    throw new AdminProblem(
      'CROSS_SITE',
      `Sec-Fetch-Site is ${shown(site)}; expected "same-origin" or none: only pages of this server may change things.`,
    );
  }
  const { origin } = headers;
  if (
    origin !== undefined &&
    (!URL.canParse(origin) || new URL(origin).host !== headers.host?.toLowerCase())
  ) {
    throw new AdminProblem(
      'CROSS_SITE',
      `Origin is ${shown(origin)}; expected none, or this server: only its own pages may change things.`,
    );
  }
  const [type = ''] = headersDistinct['content-type'] ?? [];
  // Browsers ask before they send a DELETE to another site, and are never told that they may.
  if (method !== 'DELETE' && !JSON_TYPE.test(type)) {
    throw new AdminProblem(
      'UNSUPPORTED_MEDIA_TYPE',
      `Content-Type is ${type === '' ? 'missing' : shown(type)}; expected "application/json".`,
    );
  }
}
