// The package ships its store without declarations.
declare module '@fastify/rate-limit/store/LocalStore.js' {
  export interface LocalCount {
    readonly current: number;
    readonly ttl: number;
  }

  export default class LocalStore {
    constructor(continueExceeding: boolean, exponentialBackoff: boolean, cache: number);
    readonly lru: { clear(): void };
    incr(
      key: string,
      callback: (error: Error | null, count: LocalCount) => void,
      timeWindowMs: number,
      max: number,
    ): void;
  }
}
