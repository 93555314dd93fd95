import type { Config } from '../config/config.ts';
import type { Path } from '../config/path.ts';

/** A setting and the file that it names. */
export interface NamedFile {
  readonly path: Path;
  readonly file: string;
}

/** Certificates and keys for connections that the gateway opens: when they change, the configuration is taken into use again. */
export function namedFiles({
  backend,
  rate_limit: { external },
  redis,
  cache_redis: cache,
}: Config): readonly NamedFile[] {
  const { http, grpc } = external;
  const clients = [
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
  return clients.flatMap(({ path, tls }) =>
    (['ca_file', 'cert_file', 'key_file'] as const).flatMap((name) => {
      const file = tls?.[name];
      return file === undefined ? [] : [{ path: [...path, name], file }];
    }),
  );
}

function enabledOf<Tls extends { readonly enabled: boolean }>(tls: Tls | undefined): Tls | undefined {
  return tls?.enabled === true ? tls : undefined;
}
