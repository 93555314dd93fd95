import { startRedis } from '../servers.ts';
import { SlotFleet, type SlotFleetOptions, type SlotSample } from './slot-fleet.ts';

export interface WatchedFleet extends SlotFleetOptions {
  readonly acquisitions: number;
  /** Whether to crash a process now, so many slots and so long after the last crash. */
  readonly isCrashDue: (taken: number, passedMs: number) => boolean;
  /** After this long it is over, whatever was taken. */
  readonly giveUpMs: number;
}

export interface FleetReport {
  readonly taken: number;
  readonly crashes: number;
  readonly mostLive: number;
  /** Moments at which more were held than may be, by the clock of Redis or by what living processes say. */
  readonly tooMany: readonly SlotSample[];
  /** Moments at which a slot was to last longer than hold. */
  readonly tooLong: readonly SlotSample[];
  readonly leftAfterHold: number;
}

/** Lets processes take slots and crashes them, one after the other, until so many slots were taken. */
export async function watchFleet({
  acquisitions,
  isCrashDue,
  giveUpMs,
  ...options
}: WatchedFleet): Promise<FleetReport> {
  const server = await startRedis();
  const fleet = new SlotFleet(server, options);
  const tooMany: SlotSample[] = [];
  const tooLong: SlotSample[] = [];
  let mostLive = 0;
  let crashes = 0;
  let taken = 0;
  const endsAtMs = performance.now() + giveUpMs;
  try {
    let crashed = { taken: 0, atMs: performance.now() };
    while (taken < acquisitions && performance.now() < endsAtMs) {
      const sample = await fleet.sample();
      const { live, claimed, longestMs } = sample;
      mostLive = Math.max(mostLive, live);
      if (live > options.limit || claimed > options.limit) tooMany.push(sample);
      if (longestMs > options.holdMs) tooLong.push(sample);
      ({ taken } = sample);
      if (taken === 0 || !isCrashDue(taken - crashed.taken, performance.now() - crashed.atMs)) continue;
      await fleet.crash(crashes % options.processes);
      crashes += 1;
      crashed = { taken, atMs: performance.now() };
    }
    await fleet.crashAll();
    // The last of them ends `hold` after its last renewal, and so at most that long after now.
    const diedAtMs = performance.now();
    let last = await fleet.sample();
    while (last.live > 0 && performance.now() - diedAtMs < options.holdMs) last = await fleet.sample();
    return {
      taken,
      crashes,
      mostLive,
      tooMany,
      tooLong,
      leftAfterHold: (await fleet.sample()).live,
    };
  } finally {
    await fleet.stop();
    await server.stop();
  }
}
