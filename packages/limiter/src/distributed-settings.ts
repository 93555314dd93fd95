/** Where the environment says the shared state lives. */
export interface DistributedStoreSettings {
  /**
   * `REDIS_ADDRS`: independent servers that share the keys. Default: `REDIS_ADDR` alone, by default `localhost:6379`.
   */
  readonly addresses: readonly string[];
  /** `REDIS_DB`. Default: 0. */
  readonly database: number;
  /** `DISTRIBUTED_RATE_LIMIT_PREFIX`. Default: `ratelimit:`. */
  readonly prefix: string;
}
