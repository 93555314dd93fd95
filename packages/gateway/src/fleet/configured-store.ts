import { isDeepStrictEqual } from 'node:util';
import { openRedisFleet, OwnSettings } from 'spillgate/internal';
import type { RedisStoreOptions } from 'spillgate/redis';
import type { Config } from '../config/config.ts';
import { redisOptions } from '../external/redis-client.ts';
import { FileSettings } from './file-settings.ts';
import type { FleetStore } from './fleet-view.ts';

/** Where a fleet meets, and what that depends on. */
export interface ConfiguredFleetStore extends FleetStore {
  readonly plan: FleetPlan;
}

interface FleetPlan {
  readonly redis: RedisStoreOptions | undefined;
  readonly folder: string | undefined;
}

/** The store that a configuration asks for; the given one if that is it. */
export function configuredFleetStore(config: Config, current?: ConfiguredFleetStore): ConfiguredFleetStore {
  const { redis, state_dir: folder } = config;
  const plan: FleetPlan = {
    redis: redis && redisOptions({ section: 'redis', config: redis }),
    folder: redis === undefined ? folder : undefined,
  };
  if (current !== undefined && isDeepStrictEqual(current.plan, plan)) return current;
  return openStore(plan);
}

function openStore(plan: FleetPlan): ConfiguredFleetStore {
  if (plan.redis !== undefined) {
    const fleet = openRedisFleet(plan.redis);
    return { plan, keptIn: 'redis', settings: fleet, instances: fleet, close: async () => fleet.close() };
  }
  const settings = plan.folder === undefined ? new OwnSettings() : new FileSettings(plan.folder);
  return {
    plan,
    keptIn: plan.folder === undefined ? 'memory' : 'file',
    settings,
    instances: undefined,
    close: async () => settings.close(),
  };
}
