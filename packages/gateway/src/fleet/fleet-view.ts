import type {
  InstanceSummary,
  KeyActivitySnapshot,
  KeySetting,
  KeySettingId,
  SettingsStore,
} from 'spillgate/internal';

/** What operators see of all instances that share a store, and change for all of them. */
export interface FleetView {
  /** Of the instance that answers; undefined if none does. */
  readonly id: string | undefined;
  /** Where settings are kept. */
  keptIn(): FleetStore['keptIn'];
  settings(): readonly KeySetting[];
  find(id: KeySettingId): KeySetting | undefined;
  /** Resolves when it is kept and holds here. Rejects with a `LimiterError`. */
  set(setting: KeySetting): Promise<void>;
  /** False if there was none. */
  remove(id: KeySettingId): Promise<boolean>;
  /** Of all instances together. */
  activity(most: number): Promise<FleetActivity>;
  instances(): Promise<readonly InstanceSummary[]>;
}

export interface FleetActivity {
  readonly instances: number;
  readonly activity: KeyActivitySnapshot;
}

/** Where the instances of a fleet meet. */
export interface FleetStore {
  readonly keptIn: 'redis' | 'file' | 'memory';
  readonly settings: SettingsStore;
  /** Undefined where this is the only instance. */
  readonly instances:
    | {
        publish(id: string, summary: string, ttlMs: number): Promise<void>;
        summaries(): Promise<readonly string[]>;
        withdraw(id: string): Promise<void>;
      }
    | undefined;
  close(): Promise<void>;
}
