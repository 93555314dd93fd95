import type { Config } from '../config/config.ts';

/** Certificates and keys for connections that the gateway opens: when they change, the configuration is taken into use again. */
export function namedFiles({
  backend,
  rate_limit: limits,
  redis,
  cache_redis: cache,
}: Config): readonly string[] {
  const clients = [backend.transport.tls, limits.external.grpc?.tls, redis?.tls, cache?.tls];
  const files = clients.flatMap((tls) => [tls?.ca_file, tls?.cert_file, tls?.key_file]);
  return [...new Set(files.filter((file) => file !== undefined))];
}

/** What must not appear in any log. */
export function secretsOf({ admin, redis, cache_redis: cache }: Config): readonly string[] {
  const secrets = [
    admin.token,
    redis?.password,
    redis?.sentinel_password,
    cache?.password,
    cache?.sentinel_password,
  ];
  return secrets.filter((secret) => secret !== undefined);
}
