import type { TLSSocket } from 'node:tls';
import { ThrottledWarning, type Log } from '../../telemetry/log.ts';

interface HandshakeError extends NodeJS.ErrnoException {
  /** What OpenSSL says, without the place in its source. */
  readonly reason?: string;
}

/** Tells the log of clients with whom TLS cannot be spoken, such as those without the certificate that is asked for. */
export class HandshakeFailureLog {
  private readonly warning: ThrottledWarning;
  private readonly log: Log;

  constructor(log: Log) {
    this.log = log;
    this.warning = new ThrottledWarning(log, 'a TLS handshake failed: the connection is closed');
  }

  failed(error: HandshakeError, socket: TLSSocket): void {
    const { code, reason, message } = error;
    const address = socket.remoteAddress;
    const where = address === undefined ? {} : { address };
    const refused = authorizationError(socket);
    if (refused !== undefined) this.warning.warn({ ...where, detail: refused });
    // Health checks connect and leave.
    else if (code === 'ECONNRESET') this.log.debug(where, 'a client left before its TLS handshake was over');
    else this.warning.warn({ ...where, code, detail: reason ?? message });
  }
}

/** Why the certificate of the client does not count. It is a text here, whatever its declared type says, or null. */
function authorizationError({
  authorizationError: why,
}: {
  readonly authorizationError: unknown;
}): string | undefined {
  if (why instanceof Error) return why.message;
  return typeof why === 'string' ? why : undefined;
}
