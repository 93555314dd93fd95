import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

export interface AdminSession {
  /** What the log calls it; nobody gets in with it. */
  readonly name: string;
  /** Sent along with every change, so that no other page can make one. */
  readonly csrfToken: string;
  readonly expiresAt: Date;
}

export interface OpenedSession extends AdminSession {
  /** The header that makes the browser keep it. */
  readonly cookie: string;
}

interface KeptSession extends AdminSession {
  /** Of the token that it was opened with: where that is no longer one, neither is the session. */
  readonly tokenDigest: string;
  readonly endsMs: number;
}

const COOKIE = 'spillgate_session';
const LASTS_MS = 8 * 3_600_000;
const MAX_SESSIONS = 1000;

/** Browsers that showed a token once. Kept in this process: a restart ends them all. */
export class AdminSessions {
  private readonly byId = new Map<string, KeptSession>();

  open(token: string, secure: boolean): OpenedSession {
    this.forgetEnded();
    const [oldest] = this.byId.keys();
    if (this.byId.size >= MAX_SESSIONS && oldest !== undefined) this.byId.delete(oldest);
    const id = randomBytes(32).toString('base64url');
    const session: KeptSession = {
      name: digestOf(id).slice(0, 8),
      csrfToken: randomBytes(32).toString('base64url'),
      // The wall clock: it is shown. By which it ends is not.
      expiresAt: new Date(Date.now() + LASTS_MS),
      tokenDigest: digestOf(token),
      endsMs: performance.now() + LASTS_MS,
    };
    this.byId.set(digestOf(id), session);
    return { ...session, cookie: cookieOf(id, LASTS_MS / 1000, secure) };
  }

  /** The session of a request, if it has one that was opened with this token. */
  of(request: IncomingMessage, token: string | undefined): AdminSession | undefined {
    if (token === undefined) return undefined;
    const id = idIn(request);
    const session = id === undefined ? undefined : this.byId.get(digestOf(id));
    if (session === undefined || session.endsMs <= performance.now()) return undefined;
    return digestOf(token) === session.tokenDigest ? session : undefined;
  }

  /** Ends the one of the request; answers the header that makes the browser forget it. */
  close(request: IncomingMessage): string {
    const id = idIn(request);
    if (id !== undefined) this.byId.delete(digestOf(id));
    return cookieOf('', 0, false);
  }

  private forgetEnded(): void {
    const nowMs = performance.now();
    for (const [id, { endsMs }] of this.byId) if (endsMs <= nowMs) this.byId.delete(id);
  }
}

/** Whether a change carries what only our own page knows. */
export function hasCsrfToken({ headers }: IncomingMessage, { csrfToken }: AdminSession): boolean {
  const sent = headers['x-csrf-token'];
  if (typeof sent !== 'string') return false;
  return timingSafeEqual(Buffer.from(digestOf(sent)), Buffer.from(digestOf(csrfToken)));
}

function idIn({ headers: { cookie = '' } }: IncomingMessage): string | undefined {
  return cookie
    .split(';')
    .map((pair) => pair.trim())
    .find((pair) => pair.startsWith(`${COOKIE}=`))
    ?.slice(COOKIE.length + 1);
}

function cookieOf(id: string, seconds: number, secure: boolean): string {
  return `${COOKIE}=${id}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${seconds}${secure ? '; Secure' : ''}`;
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
