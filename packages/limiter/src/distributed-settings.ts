/** Where the environment says the shared state lives. */
export interface DistributedStoreSettings {
  /**
   * `REDIS_ADDRS`: independent servers that share the keys. Default: `REDIS_ADDR` alone, by default `localhost:6379`.
   */
  readonly addresses: readonly string[];
  /** `REDIS_URL`, where it names the server and not the addresses. */
  readonly url: string | undefined;
  /** `REDIS_DB`. Default: 0. */
  readonly database: number;
  /** `REDIS_USERNAME` and `REDIS_PASSWORD`. */
  readonly username: string | undefined;
  readonly password: string | undefined;
  /** `DISTRIBUTED_RATE_LIMIT_PREFIX`. Default: `ratelimit:`. */
  readonly prefix: string;
}
