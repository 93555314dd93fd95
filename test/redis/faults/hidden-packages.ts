import { register } from 'node:module';

/** Where one of these packages is looked for, nothing is installed. */
function hooksHiding(names: readonly string[]): string {
  const hooks = `
export async function resolve(specifier, context, next) {
  // The test runner has found the file already when it gets here.
  const name = /^(?:.*\\/node_modules\\/)?(${names.join('|')})(?:\\/|$)/.exec(specifier)?.[1];
  if (name === undefined) return next(specifier, context);
  throw Object.assign(new Error("Cannot find package '" + name + "'"), { code: 'ERR_MODULE_NOT_FOUND' });
}`;
  return `data:text/javascript,${encodeURIComponent(hooks)}`;
}

export const WITHOUT_IOREDIS_HOOKS: string = hooksHiding(['ioredis', 'iovalkey']);

/** From now on this process has only node-redis, as most applications have only one client package. */
export function hideIoredis(): void {
  register(WITHOUT_IOREDIS_HOOKS);
}

/** From now on this process has no Redis client at all. */
export function hideAllClients(): void {
  register(hooksHiding(['ioredis', 'iovalkey', 'redis', '@redis\\/client']));
}
