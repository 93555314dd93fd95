import type { TlsOptions } from 'node:tls';
import type { ServerTls } from '../proxy/tls/server-tls.ts';

/** What is listened to as long as it is in use: a reload may put another in its place, or keep it. */
export class Followed<Source extends object> {
  private current: Source | undefined;
  private stops: readonly (() => void)[] = [];

  /** `listen` is called where this is not the one in use, and returns what stops listening. */
  follow(source: Source | undefined, listen: () => readonly (() => void)[]): void {
    if (source === this.current) return;
    this.stop();
    this.current = source;
    this.stops = listen();
  }

  stop(): void {
    for (const stop of this.stops) stop();
    this.stops = [];
  }
}

/** The certificates of a server. */
export class FollowedTls {
  private readonly followed = new Followed<ServerTls>();

  /** `changed` gets these now, and again whenever they change. Nothing happens if they are the ones in use. */
  follow(tls: ServerTls | undefined, changed: (options: TlsOptions) => void): void {
    this.followed.follow(tls, () => {
      if (tls === undefined) return [];
      changed(tls.options);
      return [tls.onChange(changed)];
    });
  }
}
