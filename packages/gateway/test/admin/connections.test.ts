// Who gets through to the admin port while somebody keeps its connections, and opens those anew that are closed.
import { Socket } from 'node:net';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { AdminConnections } from '../../src/admin/connections.ts';

const PER_ADDRESS = 64;
const ATTACKER = '192.0.2.1';
const PROBE = '192.0.2.2';

class ConnectionFrom extends Socket {
  override readonly remoteAddress: string;

  constructor(address: string) {
    super();
    this.remoteAddress = address;
  }
}

let served: Socket[];
let warnings: number;
let connections: AdminConnections;

beforeEach(() => {
  vi.useFakeTimers();
  served = [];
  warnings = 0;
  const log = { warn: () => (warnings += 1) };
  connections = new AdminConnections(log as never, (socket) => served.push(socket));
  return () => vi.useRealTimers();
});

function arrive(address: string): Socket {
  const socket = new ConnectionFrom(address);
  connections.arrived(socket);
  return socket;
}

/** Whoever is closed comes again at once. */
function arriveForEver(address: string, counter: { opened: number }): void {
  counter.opened += 1;
  arrive(address).once('close', () => setTimeout(() => arriveForEver(address, counter), 1));
}

describe('an address that opens more than its share', () => {
  test('costs little: what it opens anew is served at most every 2 ms', async () => {
    const counter = { opened: 0 };
    for (let at = 0; at < 300; at += 1) arriveForEver(ATTACKER, counter);
    const before = { served: served.length, opened: counter.opened };

    await vi.advanceTimersByTimeAsync(5000);

    expect(served.length - before.served).toBeGreaterThan(2000);
    expect(served.length - before.served).toBeLessThanOrEqual(2501);
    expect(counter.opened - before.opened).toBeLessThanOrEqual(2501);
    expect(warnings).toBeGreaterThan(0);
  });

  test('another address is served at once meanwhile, and is not closed', async () => {
    for (let at = 0; at < 300; at += 1) arriveForEver(ATTACKER, { opened: 0 });

    const probe = arrive(PROBE);
    const servedAtOnce = served.at(-1) === probe;
    await vi.advanceTimersByTimeAsync(5000);

    expect(servedAtOnce).toBe(true);
    expect(probe.destroyed).toBe(false);
  });

  test('each of its connections gets its turn, however often others come again', async () => {
    for (let at = 0; at < 300; at += 1) arriveForEver(ATTACKER, { opened: 0 });

    const probe = arrive(ATTACKER);
    await vi.advanceTimersByTimeAsync(2 * (300 - PER_ADDRESS + 1));

    expect(served).toContain(probe);
  });

  test('requests under way are not cut off: those who come later wait for their end', async () => {
    const busy = Array.from({ length: PER_ADDRESS }, () => arrive(ATTACKER));
    for (const socket of busy) connections.requested(socket);

    const late = arrive(ATTACKER);
    await vi.advanceTimersByTimeAsync(1000);
    const servedBefore = served.includes(late);
    for (const socket of busy.slice(0, 1)) connections.answered(socket);
    await vi.advanceTimersByTimeAsync(10);

    expect(servedBefore).toBe(false);
    expect(served).toContain(late);
    expect(busy.filter(({ destroyed }) => destroyed)).toEqual(busy.slice(0, 1));
  });

  test('whoever waits for too long is closed', async () => {
    for (let at = 0; at < PER_ADDRESS; at += 1) connections.requested(arrive(ATTACKER));

    const late = arrive(ATTACKER);
    await vi.advanceTimersByTimeAsync(9900);
    const closedEarly = late.destroyed;
    await vi.advanceTimersByTimeAsync(200);

    expect([closedEarly, late.destroyed]).toEqual([false, true]);
  });

  test('those that wait are bounded', () => {
    for (let at = 0; at < PER_ADDRESS; at += 1) connections.requested(arrive(ATTACKER));

    const waiting = Array.from({ length: 1100 }, () => arrive(ATTACKER));

    expect(waiting.filter(({ destroyed }) => !destroyed)).toHaveLength(1024);
  });
});

test('many addresses cannot fill the port: there is always room for four connections of each', () => {
  for (let address = 1; address <= 10; address += 1) {
    for (let at = 0; at < PER_ADDRESS; at += 1) arrive(`198.51.100.${address}`);
  }

  const probes = Array.from({ length: 4 }, () => arrive(PROBE));

  expect(served.slice(-4)).toEqual(probes);
  expect(probes.some(({ destroyed }) => destroyed)).toBe(false);
});

test('what waits is closed with the server', () => {
  const all = Array.from({ length: PER_ADDRESS }, () => arrive(ATTACKER));
  for (const socket of all) connections.requested(socket);
  const late = arrive(ATTACKER);

  connections.close();

  expect(late.destroyed).toBe(true);
});
