// How much a client address may send that carries nothing.
import { expect, onTestFinished, test, vi } from 'vitest';
import { EmptyBytes, OverheadBudgets, type Overhead } from '../../../src/proxy/server/overhead-budget.ts';
import { configOf, keptLog } from '../gateway-settings.ts';

const KIB = 1024;

function start(server: object = {}) {
  const clock = { ms: 1_000_000 };
  vi.spyOn(performance, 'now').mockImplementation(() => clock.ms);
  onTestFinished(() => void vi.restoreAllMocks());
  const counted: string[] = [];
  const log = keptLog();
  const settings = { config: configOf({ server: { max_overhead_per_address: '64KiB', ...server } }) };
  const budgets = new OverheadBudgets({
    config: () => settings.config,
    traffic: {
      started: () => undefined,
      finished: () => undefined,
      connectionOpened: () => undefined,
      connectionClosed: () => undefined,
      tunnelOpened: () => undefined,
      tunnelClosed: () => undefined,
      count: (metric, ...[label = '']) => void counted.push(`${metric} ${label}`),
    },
    log,
  });
  /** How often a new connection may do it until it is cut off. */
  const allowed = (peer: string, overhead: Overhead, atMost = 100_000): number => {
    let cuts = 0;
    const connection = budgets.forPeer(peer, () => (cuts += 1));
    let times = 0;
    for (; times < atMost && !connection.usedUp; times += 1) connection.spend(overhead);
    expect(cuts).toBe(connection.usedUp ? 1 : 0);
    return connection.usedUp ? times - 1 : times;
  };
  return { clock, budgets, allowed, counted, log, settings };
}

test.each([
  ['malformedRequest', 16],
  ['cancelledRequest', 16],
  ['controlFrame', 256],
  ['smallPiece', 32_768],
  ['emptyByte', 65_536],
] as const)('a budget of 64 KiB is %s %i times', (overhead, times) => {
  const { allowed, counted, log } = start();

  expect(allowed('192.0.2.1', overhead)).toBe(times);
  expect(counted).toEqual([`connectionsCutOff ${overhead}`]);
  expect(log.lines).toHaveLength(1);
  expect(log.lines[0]).toMatch(/^warn server\.max_overhead_per_address is used up.*"address":"192\.0\.2\.1"/);
});

test('who connects again goes on with what is left, and an eighth comes back every second', () => {
  const { clock, allowed } = start();

  expect(allowed('192.0.2.1', 'malformedRequest')).toBe(16);
  expect(allowed('192.0.2.1', 'malformedRequest')).toBe(0);
  clock.ms += 1000;
  expect(allowed('192.0.2.1', 'malformedRequest')).toBe(2);
  clock.ms += 3_600_000;
  expect(allowed('192.0.2.1', 'malformedRequest')).toBe(16);
});

test('others have budgets of their own; an IPv6 network has one', () => {
  const { allowed } = start();

  expect(allowed('2001:db8:1:2::1', 'malformedRequest')).toBe(16);
  expect(allowed('2001:db8:1:2:ffff::9', 'malformedRequest')).toBe(0);
  expect(allowed('2001:db8:1:3::1', 'malformedRequest')).toBe(16);
  expect(allowed('::ffff:192.0.2.1', 'controlFrame')).toBe(256);
  expect(allowed('192.0.2.1', 'controlFrame')).toBe(0);
});

test('every connection of a trusted proxy has its own, and is not to blame for malformed requests', () => {
  const { allowed, budgets } = start({ client_address: { trusted_proxies: ['10.0.0.0/8'] } });

  expect(allowed('10.1.1.1', 'controlFrame')).toBe(256);
  expect(allowed('10.1.1.1', 'controlFrame')).toBe(256);
  expect(allowed('10.1.1.1', 'malformedRequest', 1000)).toBe(1000);
  expect(budgets.usedUpForMs('10.1.1.1')).toBeUndefined();
  expect(budgets.size).toBe(0);
});

test('0 is no limit', () => {
  const { allowed, budgets } = start({ max_overhead_per_address: 0 });

  expect(allowed('192.0.2.1', 'malformedRequest', 10_000)).toBe(10_000);
  expect(budgets.size).toBe(0);
});

test('another setting holds from the next byte on', () => {
  const { allowed, settings } = start();
  allowed('192.0.2.1', 'malformedRequest');

  settings.config = configOf({ server: { max_overhead_per_address: '1GiB' } });

  expect(allowed('192.0.2.1', 'malformedRequest', 5000)).toBe(5000);
});

test('10,000 addresses are remembered, those of whom was heard last', () => {
  const { allowed, budgets } = start();
  allowed('192.0.2.1', 'malformedRequest');
  const spend = (at: number): number => allowed(`10.0.${at >> 8}.${at & 255}`, 'emptyByte', 1);
  for (let at = 0; at < 9999; at += 1) spend(at);

  expect(budgets.size).toBe(10_000);
  expect(allowed('192.0.2.1', 'malformedRequest')).toBe(0);
  for (let at = 9999; at < 19_999; at += 1) spend(at);
  expect(budgets.size).toBe(10_000);
  expect(allowed('192.0.2.1', 'malformedRequest')).toBe(16);
});

test('an address is suspect for two seconds after it used up its budget', () => {
  const { clock, allowed, budgets } = start();

  expect(budgets.usedUpForMs('192.0.2.1')).toBeUndefined();
  allowed('192.0.2.1', 'malformedRequest');
  clock.ms += 1999;
  expect(budgets.usedUpForMs('192.0.2.1')).toBe(1999);
  clock.ms += 1;
  expect(budgets.usedUpForMs('192.0.2.1')).toBeUndefined();
  expect(budgets.usedUpForMs(undefined)).toBeUndefined();
});

test('what came and belongs to no request is charged, whichever is heard of first', () => {
  const socket = { bytesRead: 100 };
  let charged = 0;
  const bytes = new EmptyBytes(socket, { spend: (_overhead, count) => (charged += count ?? 1) });

  // Half of a request has come, and then all of it.
  socket.bytesRead += 500;
  bytes.carried(1000);
  bytes.charge();
  socket.bytesRead += 500;
  bytes.charge();
  expect(charged).toBe(0);

  socket.bytesRead += 30;
  bytes.charge();
  bytes.charge();
  expect(charged).toBe(30);

  // A large response does not pay for everything that follows.
  bytes.carried(2 ** 30);
  bytes.charge();
  socket.bytesRead += 64 * KIB + 7;
  bytes.charge();
  expect(charged).toBe(37);
});
