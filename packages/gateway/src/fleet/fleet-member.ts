import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import {
  mergeActivities,
  PUBLISH_EVERY_MS,
  PUBLISHED_KEYS,
  readSummary,
  SharedSettings,
  SUMMARY_TTL_MS,
  type AppliedSettings,
  type DecisionSums,
  type InstanceSummary,
  type KeyActivitySnapshot,
  type KeySetting,
  type KeySettingId,
  type SettingsChange,
} from 'spillgate/internal';
import { storeFailure } from '../config/problem.ts';
import type { Log } from '../telemetry/log.ts';
import type { FleetActivity, FleetStore, FleetView } from './fleet-view.ts';

/** What one process of an instance has decided. */
export interface ProcessActivity {
  readonly sums: DecisionSums;
  readonly activity: KeyActivitySnapshot;
}

export interface FleetMemberParts {
  readonly applied: AppliedSettings;
  readonly log: Log;
  /** What this instance is, apart from what it has decided. */
  readonly describe: () => Promise<
    Pick<InstanceSummary, 'version' | 'startedAt' | 'configHash' | 'policies' | 'more'>
  >;
  /** What its processes have decided. */
  readonly activities: () => Promise<readonly ProcessActivity[]>;
  /** Workers have to hear of every change of a setting. */
  readonly changed: (change: SettingsChange) => void;
}

/** This instance among those that share its store: follows their settings, and tells them about itself. */
export class FleetMember implements FleetView {
  readonly id: string = `${hostname().slice(0, 64)}-${randomBytes(4).toString('hex')}`;
  private readonly parts: FleetMemberParts;
  private store: FleetStore | undefined;
  private shared: SharedSettings | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private telling: Promise<void> = Promise.resolve();
  private isUntold = false;
  private ended = false;

  constructor(parts: FleetMemberParts) {
    this.parts = parts;
  }

  /** Resolves when its settings hold here, or cannot be read now. */
  async join(store: FleetStore): Promise<void> {
    if (store === this.store || this.ended) return;
    const { applied, log, changed } = this.parts;
    this.shared?.stop();
    this.store = store;
    this.shared = new SharedSettings({
      store: store.settings,
      applied,
      changed,
      unreadable: (failure) =>
        log.warn(
          storeFailure(failure),
          'overrides and blocks cannot be read from the store; those known here still hold',
        ),
    });
    await this.shared.start();
    this.schedule(0);
  }

  async leave(): Promise<void> {
    this.ended = true;
    this.shared?.stop();
    clearTimeout(this.timer);
    // What is on its way would arrive after the goodbye.
    await this.telling;
    // Who cannot say goodbye is forgotten soon.
    await this.store?.instances?.withdraw(this.id).catch(() => undefined);
  }

  keptIn(): FleetStore['keptIn'] {
    return this.store?.keptIn ?? 'memory';
  }

  settings(): readonly KeySetting[] {
    return this.parts.applied.all();
  }

  find(id: KeySettingId): KeySetting | undefined {
    return this.parts.applied.find(id);
  }

  async set(setting: KeySetting): Promise<void> {
    await this.joined().set(setting);
  }

  async remove(id: KeySettingId): Promise<boolean> {
    return this.joined().remove(id);
  }

  async activity(most: number): Promise<FleetActivity> {
    const instances = await this.instances();
    return {
      instances: instances.length,
      activity: mergeActivities(
        instances.map((each) => each.activity),
        most,
      ),
    };
  }

  async instances(): Promise<readonly InstanceSummary[]> {
    const own = await this.summary();
    const texts = (await this.store?.instances?.summaries()) ?? [];
    const others = texts.flatMap((text) => readSummary(text) ?? []).filter(({ id }) => id !== own.id);
    return [own, ...others];
  }

  private joined(): SharedSettings {
    if (this.shared === undefined) throw new Error('the gateway has not started yet');
    return this.shared;
  }

  private async summary(): Promise<InstanceSummary> {
    const described = await this.parts.describe();
    const processes = await this.parts.activities();
    const sum = (count: (sums: DecisionSums) => number): number =>
      processes.reduce((total, { sums }) => total + count(sums), 0);
    return {
      id: this.id,
      name: hostname(),
      kind: 'gateway',
      publishedAt: new Date().toISOString(),
      decisions: {
        allowed: sum(({ allowed }) => allowed),
        denied: sum(({ denied }) => denied),
        undecided: sum(({ undecided }) => undecided),
      },
      activity: mergeActivities(
        processes.map(({ activity }) => activity),
        PUBLISHED_KEYS,
      ),
      ...described,
    };
  }

  private schedule(inMs: number): void {
    clearTimeout(this.timer);
    if (this.ended || this.store?.instances === undefined) return;
    this.timer = setTimeout(() => {
      this.telling = this.tell();
    }, inMs);
    this.timer.unref();
  }

  private async tell(): Promise<void> {
    try {
      const summary = JSON.stringify(await this.summary());
      await this.store?.instances?.publish(this.id, summary, SUMMARY_TTL_MS);
      this.isUntold = false;
    } catch (err) {
      if (!this.isUntold && !this.ended) {
        this.parts.log.warn(storeFailure(err), 'other instances cannot be told about this one');
      }
      this.isUntold = true;
    }
    this.schedule(PUBLISH_EVERY_MS);
  }
}
