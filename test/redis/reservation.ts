import { randomInt } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { watchdog } from './watchdog.ts';

/** A port of 127.0.0.1 and a folder that belong to one server until they are released, also while it is down. */
export interface Reservation {
  readonly port: number;
  /** The second port that a node of a cluster listens on. */
  readonly busPort: number;
  readonly folder: string;
  release(): void;
}

// Below the range from which systems take ports for outgoing connections (32768 or 49152 and up): none of those can
// occupy the port of a server that is down for a moment.
const FIRST_PORT = 10_000;
const PORTS = 10_000;
const MAX_ATTEMPTS = 100;

export async function reserve(): Promise<Reservation> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const reservation = claim(FIRST_PORT + randomInt(PORTS));
    if (reservation === undefined) continue;
    if ((await isFree(reservation.port)) && (await isFree(reservation.busPort))) return reservation;
    reservation.release();
  }
  throw new Error(`No free port found in ${MAX_ATTEMPTS} attempts`);
}

/** Creating the folder is atomic, so it is the lock between test processes that run at the same time. */
function claim(port: number): Reservation | undefined {
  const folder = join(tmpdir(), `spillgate-redis-${port}`);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return undefined;
    throw error;
  }
  watchdog.hold(folder);
  return {
    port,
    busPort: port + PORTS,
    folder,
    release() {
      // In this order: once it is removed, the folder may belong to another process.
      watchdog.drop(folder);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => {
      resolve(false);
    });
    probe.listen({ host: '127.0.0.1', port }, () => {
      probe.close(() => {
        resolve(true);
      });
    });
  });
}
