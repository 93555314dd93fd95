// New connections of an address that has just used up its budget come one after the other.
import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { SuspectConnections } from '../../../src/proxy/server/listener.ts';

const ADDRESS = '192.0.2.1';

beforeEach(() => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
});

class FakeSocket extends EventEmitter {
  destroyed = false;

  destroy(): void {
    this.destroyed = true;
  }
}

function start() {
  const suspect = { since: -Infinity };
  const served: Socket[] = [];
  const refused: string[] = [];
  const frontWith = (taken: Socket[]) => ({
    accept: (socket: Socket) => void taken.push(socket),
    chargeFrames: () => undefined,
  });
  let inUse = frontWith(served);
  const budgets = {
    usedUpForMs: (address: string | undefined) => {
      const agoMs = performance.now() - suspect.since;
      return address === ADDRESS && agoMs < 2000 ? agoMs : undefined;
    },
  };
  const connections = new SuspectConnections(budgets, (address) => refused.push(address));
  const open = (address: string | undefined = ADDRESS): FakeSocket => {
    const socket = new FakeSocket();
    connections.serve(address, { socket: socket as unknown as Socket, front: () => inUse });
    return socket;
  };
  const isBad = (): void => void (suspect.since = performance.now());
  const reload = (): readonly Socket[] => {
    const taken: Socket[] = [];
    inUse = frontWith(taken);
    return taken;
  };
  return { connections, open, served, refused, isBad, reload };
}

test('whoever did nothing is served at once', () => {
  const { open, served, isBad } = start();
  open();
  isBad();
  open('192.0.2.2');
  open(undefined);

  expect(served).toHaveLength(3);
});

test('a suspect is served one connection every 20 ms, and others between them', () => {
  const { open, served, isBad } = start();
  isBad();
  vi.advanceTimersByTime(1);
  for (let at = 0; at < 5; at += 1) open();
  open('192.0.2.2');

  expect(served).toHaveLength(2);
  vi.advanceTimersByTime(19);
  expect(served).toHaveLength(2);
  vi.advanceTimersByTime(1);
  expect(served).toHaveLength(3);
  vi.advanceTimersByTime(1000);
  expect(served).toHaveLength(6);
});

test('whoever waits during a reload is served by what is in use when its turn comes', () => {
  const { open, served, isBad, reload } = start();
  isBad();
  vi.advanceTimersByTime(1);
  open();
  const waiting = open();
  const servedNow = reload();

  vi.advanceTimersByTime(1000);

  expect(served).not.toContain(waiting);
  expect(servedNow).toEqual([waiting]);
});

test('after one that used up the budget again the next waits longer', () => {
  const { open, served, isBad } = start();
  isBad();
  vi.advanceTimersByTime(1);
  open();
  open();
  isBad();

  vi.advanceTimersByTime(119);
  expect(served).toHaveLength(1);
  vi.advanceTimersByTime(1);
  expect(served).toHaveLength(2);
});

test('who gave up is passed over, and the last one ends the line', () => {
  const { open, served, isBad } = start();
  isBad();
  vi.advanceTimersByTime(1);
  open();
  open().destroy();
  open().destroy();
  const last = open();

  vi.advanceTimersByTime(20);
  expect(served.at(-1)).toBe(last);
  expect(last.listenerCount('error')).toBe(0);
  vi.advanceTimersByTime(5000);
  open();
  expect(served).toHaveLength(3);
  expect(vi.getTimerCount()).toBe(0);
});

test('100 wait, and more are closed; at the end all are', () => {
  const { connections, open, served, refused, isBad } = start();
  isBad();
  vi.advanceTimersByTime(1);

  const sockets = Array.from({ length: 102 }, () => open());

  expect(served).toHaveLength(1);
  expect(refused).toEqual([ADDRESS]);
  expect(sockets.filter(({ destroyed }) => destroyed)).toEqual([sockets[101]]);
  connections.close();
  expect(sockets.filter(({ destroyed }) => destroyed)).toHaveLength(101);
});
