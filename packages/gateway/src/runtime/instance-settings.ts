// What this process has of the fleet: settings of single keys on its policies, and which keys it is busy with.
import { createHash } from 'node:crypto';
import {
  AppliedSettings,
  KeyActivity,
  PUBLISHED_KEYS,
  PUBLISHED_POLICIES,
  type InstanceSummary,
  type PublishedPolicy,
  type SettingsChange,
} from 'spillgate/internal';
import type { GatewayControl } from '../admin/control.ts';
import type { Config } from '../config/config.ts';
import { maskedConfig } from '../config/effective.ts';
import { homeStrategy } from '../rules/policy-readers.ts';
import { configuredOverrides } from '../rules/compiled-rule.ts';
import { FleetMember, type FleetMemberParts, type ProcessActivity } from '../fleet/fleet-member.ts';
import type { Log } from '../telemetry/log.ts';
import type { TrafficSummary } from '../telemetry/traffic-tally.ts';

/** A change of settings on its way to a worker; `whole`: it has no others. */
export interface SettingsMessage extends SettingsChange {
  readonly whole: boolean;
}

interface MemberParts extends Pick<FleetMemberParts, 'log' | 'describe'> {
  /** Undefined: this process decides itself. */
  readonly workers: () =>
    | {
        activities(): Promise<readonly ProcessActivity[]>;
        useSettings(settings: SettingsMessage): void;
      }
    | undefined;
}

/** The settings of one process, and its decisions. */
export class InstanceSettings {
  readonly activity: KeyActivity = new KeyActivity();
  readonly applied: AppliedSettings;

  constructor(control: Pick<GatewayControl, 'live' | 'policies'>, log: Log) {
    this.applied = new AppliedSettings({
      policies: () => control.policies(),
      configured: (policy, key) => configuredOverrides(control.live().config).get(policy)?.get(key) ?? null,
      rejected: ({ kind, policy, key }, err) =>
        log.warn(
          { policy, key, err },
          `${kind === 'override' ? 'an override' : 'a block'} does not fit the policy, and is not used`,
        ),
    });
  }

  use({ whole, ...change }: SettingsMessage): void {
    // An expiry is a time of day: the wall clock is meant.
    if (whole) this.applied.replace(change.set, Date.now());
    else this.applied.change(change);
  }

  whole(): SettingsMessage {
    return { whole: true, set: this.applied.all(), removed: [] };
  }

  /** This instance among others. */
  member({ log, describe, workers }: MemberParts): FleetMember {
    return new FleetMember({
      applied: this.applied,
      log,
      describe,
      activities: async () => workers()?.activities() ?? [this.processActivity()],
      changed: (change) => workers()?.useSettings({ ...change, whole: false }),
    });
  }

  processActivity(): ProcessActivity {
    return { sums: this.activity.sums(), activity: this.activity.snapshot(PUBLISHED_KEYS) };
  }
}

/** What an instance is, for the others. */
export function describeInstance(
  control: Pick<GatewayControl, 'live' | 'policies' | 'phase' | 'startedAt'>,
  version: string,
  traffic: TrafficSummary,
): Pick<InstanceSummary, 'version' | 'startedAt' | 'configHash' | 'policies' | 'more'> {
  const { config, generation } = control.live();
  // Of rules there may be thousands: a summary has a bound.
  const { rules: _, ...sums } = traffic;
  return {
    version,
    startedAt: control.startedAt.toISOString(),
    configHash: configHash(config),
    policies: publishedPolicies(config, control.policies()),
    more: { phase: control.phase(), generation, workers: config.server.workers, traffic: sums },
  };
}

const hashes = new WeakMap<Config, string>();

/** Without secrets: they could be guessed from their hash. */
function configHash(config: Config): string {
  const known = hashes.get(config);
  if (known !== undefined) return known;
  const made = createHash('sha256')
    .update(JSON.stringify(maskedConfig(config)))
    .digest('hex')
    .slice(0, 12);
  hashes.set(config, made);
  return made;
}

type PoliciesInUse = ReturnType<GatewayControl['policies']>;

const published = new WeakMap<PoliciesInUse, readonly PublishedPolicy[]>();

function publishedPolicies(config: Config, policies: PoliciesInUse): readonly PublishedPolicy[] {
  const known = published.get(policies);
  if (known !== undefined) return known;
  const made = [...policies.values()].slice(0, PUBLISHED_POLICIES).map(({ name, algorithm, numbers }) => ({
    name,
    algorithm,
    numbers: typeof numbers === 'object' && numbers !== null ? { ...numbers } : {},
    key: homeStrategy(config, name),
  }));
  published.set(policies, made);
  return made;
}
