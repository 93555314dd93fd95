import type { Config } from '../config/config.ts';
import type { Path } from '../config/path.ts';
import type { NamedFile } from '../config/pem-files.ts';

export const CLIENT_FILES = ['ca_file', 'cert_file', 'key_file'] as const;

/** A section that says how the gateway proves who it is, and whom it believes. */
interface ClientTls {
  readonly path: Path;
  readonly tls: Readonly<Partial<Record<(typeof CLIENT_FILES)[number], string | undefined>>> | undefined;
}

/** Certificates and keys for connections that the gateway opens: when they change, the configuration is taken into use again. */
export function namedFiles(config: Config): readonly NamedFile[] {
  return clientTls(config).flatMap(({ path, tls }) =>
    CLIENT_FILES.flatMap((name) => {
      const file = tls?.[name];
      return file === undefined ? [] : [{ path: [...path, name], file }];
    }),
  );
}

/** Of the connections that are in use. */
export function clientTls({
  backend,
  rate_limit: { external },
  redis,
  cache_redis: cache,
}: Config): readonly ClientTls[] {
  const { http, grpc } = external;
  return [
    { path: ['backend', 'transport', 'tls'], tls: backend.transport.tls },
    { path: ['redis', 'tls'], tls: enabledOf(redis?.tls) },
    ...(external.enabled
      ? [
          { path: ['cache_redis', 'tls'], tls: enabledOf(cache?.tls) },
          { path: ['rate_limit', 'external', 'http', 'tls'], tls: http?.tls },
          { path: ['rate_limit', 'external', 'grpc', 'tls'], tls: enabledOf(grpc?.tls) },
        ]
      : []),
  ];
}

function enabledOf<Tls extends { readonly enabled: boolean }>(tls: Tls | undefined): Tls | undefined {
  return tls?.enabled === true ? tls : undefined;
}
