import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startTimeout, type QueuedDeadline } from '../../src/deadline-queue.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});

afterEach(() => {
  vi.runAllTimers();
  vi.useRealTimers();
});

let ended: string[] = [];

beforeEach(() => {
  ended = [];
});

function start(name: string, ms: number): QueuedDeadline {
  return startTimeout(ms, { timeUp: () => ended.push(name) });
}

test('each ends after its own time, and once', () => {
  start('first', 100);
  vi.advanceTimersByTime(60);
  start('second', 100);
  start('short', 30);

  vi.advanceTimersByTime(29);
  expect(ended).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(ended).toEqual(['short']);
  vi.advanceTimersByTime(10);
  expect(ended).toEqual(['short', 'first']);
  vi.advanceTimersByTime(59);
  expect(ended).toEqual(['short', 'first']);
  vi.advanceTimersByTime(1);
  expect(ended).toEqual(['short', 'first', 'second']);
  vi.advanceTimersByTime(1000);
  expect(ended).toHaveLength(3);
});

test('one that is cancelled does not end, wherever it stands among the others', () => {
  const timeouts = ['a', 'b', 'c', 'd', 'e'].map((name) => start(name, 100));
  for (const at of [0, 2, 4]) timeouts[at]?.cancel();
  timeouts[2]?.cancel();

  start('f', 100);
  vi.advanceTimersByTime(100);

  expect(ended).toEqual(['b', 'd', 'f']);
});

test('one that is started again has its whole time, behind those that began in the meantime', () => {
  const first = start('first', 100);
  vi.advanceTimersByTime(40);
  start('second', 100);
  vi.advanceTimersByTime(40);
  first.restart();

  vi.advanceTimersByTime(60);
  expect(ended).toEqual(['second']);
  vi.advanceTimersByTime(39);
  expect(ended).toEqual(['second']);
  vi.advanceTimersByTime(1);
  expect(ended).toEqual(['second', 'first']);
});

test('one that is over cannot be started again, nor cancelled at the cost of another', () => {
  const first = start('first', 100);
  const second = start('second', 100);
  second.cancel();
  vi.advanceTimersByTime(100);
  start('third', 100);

  first.restart();
  first.cancel();
  second.restart();
  vi.advanceTimersByTime(500);

  expect(ended).toEqual(['first', 'third']);
});

test('whoever hears that its time is up may begin another one', () => {
  startTimeout(100, { timeUp: () => void start('again', 100) });
  start('other', 100);

  vi.advanceTimersByTime(100);
  expect(ended).toEqual(['other']);
  vi.advanceTimersByTime(100);
  expect(ended).toEqual(['other', 'again']);
});

test('a wait that begins when another ends does not hold up those in between', () => {
  startTimeout(100, { timeUp: () => void start('again', 100) });
  vi.advanceTimersByTime(40);
  start('other', 100);

  vi.advanceTimersByTime(100);
  expect(ended).toEqual(['other']);
  vi.advanceTimersByTime(60);
  expect(ended).toEqual(['other', 'again']);
});

test('one that fails when its time is up does not keep the others from ending', () => {
  startTimeout(100, {
    timeUp: () => {
      throw new Error('broken');
    },
  });
  start('other', 100);

  expect(() => vi.advanceTimersByTime(100)).toThrow('broken');
  vi.advanceTimersByTime(1);

  expect(ended).toEqual(['other']);
});

test('all of one length share a timer, which is gone when it finds nothing to wait for', () => {
  const timeouts = Array.from({ length: 1000 }, (_, at) => start(String(at), 100));
  expect(vi.getTimerCount()).toBe(1);

  for (const timeout of timeouts) timeout.cancel();
  vi.advanceTimersByTime(100);

  expect(vi.getTimerCount()).toBe(0);
  expect(ended).toEqual([]);
});
