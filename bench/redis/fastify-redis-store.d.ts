// The package ships its store without declarations.
declare module '@fastify/rate-limit/store/RedisStore.js' {
  export interface RedisCount {
    readonly current: number;
    readonly ttl: number;
  }

  export default class RedisStore {
    constructor(continueExceeding: boolean, exponentialBackoff: boolean, redis: object, keyPrefix: string);
    incr(
      key: string,
      callback: (error: Error | null, count: RedisCount) => void,
      timeWindowMs: number,
      max: number,
    ): void;
  }
}
