import type { TlsOptions } from 'node:tls';
import type { ServerTls } from '../proxy/tls/server-tls.ts';

/** The certificates of a server: hears when their files change, and of those that were replaced no more. */
export class FollowedTls {
  private current: ServerTls | undefined;
  private stop: () => void = () => undefined;

  /** `changed` gets these now, and again whenever they change. Nothing happens if they are the ones in use. */
  follow(tls: ServerTls | undefined, changed: (options: TlsOptions) => void): void {
    if (tls === this.current) return;
    this.stop();
    this.current = tls;
    if (tls !== undefined) changed(tls.options);
    this.stop = tls?.onChange(changed) ?? (() => undefined);
  }
}
