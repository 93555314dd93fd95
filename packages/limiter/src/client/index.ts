export { politeFetch } from './polite-fetch.ts';
export type { Fetch, PoliteFetchOptions, RefusedRequest, Retry } from './client-options.ts';
export type { Sleep } from './sleep.ts';
export {
  announcedLimits,
  type AnnouncedLimits,
  type AnnouncedQuota,
  type HeaderSource,
} from './announced-limits.ts';
