import type { RedisServer } from '../../../../test/redis/servers.ts';
import type { ScriptedService } from './scripted-service.ts';
import { question, testSource } from './sources.ts';

const HTTP = { url: 'http://127.0.0.1:1/' };

/** The settings of a cache on this server. */
export function section(server: RedisServer): object {
  return { endpoints: [`${server.host}:${server.port}`], read_timeout: '2s' };
}

/** A gateway of its own: other memory, same Redis. */
export function cachedGateway(service: ScriptedService, settings: object, external: object = {}) {
  const clock = { ms: 0 };
  const made = testSource(
    { external: { http: HTTP, ...external }, ...settings },
    { service, now: () => clock.ms },
  );
  return { ...made, clock, ask: async (key = 'a') => made.source.limitsFor(question(key)) };
}
