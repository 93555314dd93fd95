import { register } from 'node:module';

/** Where `ioredis` and `iovalkey` are looked for, nothing is installed. */
const HOOKS = `
export async function resolve(specifier, context, next) {
  // The test runner has found the file already when it gets here.
  const name = /^(?:.*\\/node_modules\\/)?(ioredis|iovalkey)(?:\\/|$)/.exec(specifier)?.[1];
  if (name === undefined) return next(specifier, context);
  throw Object.assign(new Error("Cannot find package '" + name + "'"), { code: 'ERR_MODULE_NOT_FOUND' });
}`;

export const WITHOUT_IOREDIS_HOOKS = `data:text/javascript,${encodeURIComponent(HOOKS)}`;

/** From now on this process has only node-redis, as most applications have only one client package. */
export function hideIoredis(): void {
  register(WITHOUT_IOREDIS_HOOKS);
}
