/** A host and a port, as a socket wants them: an IPv6 address without brackets. */
export interface HostPort {
  readonly host: string;
  readonly port: number;
}

/** Reads `10.0.0.1:6379`, `[::1]:6379`, `::1:6379` and `:6379`, whose host is ''. Without a port it is NaN. */
export function splitHostPort(text: string): HostPort {
  const colon = text.lastIndexOf(':');
  const port = colon < 0 || colon === text.length - 1 ? Number.NaN : Number(text.slice(colon + 1));
  return { host: text.slice(0, Math.max(0, colon)).replaceAll(/^\[|\]$/g, ''), port };
}

/** `10.0.0.1:6379` or `[::1]:6379`. */
export function joinHostPort({ host, port }: HostPort): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
