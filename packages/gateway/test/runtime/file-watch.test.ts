import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { watchFiles, type FileWatch } from '../../src/runtime/named-files.ts';

let folder = '';
let watch: FileWatch | undefined;
let changes = 0;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  folder = mkdtempSync(join(tmpdir(), 'spillgate-watch-'));
  changes = 0;
});

afterEach(() => {
  watch?.close();
  vi.useRealTimers();
  rmSync(folder, { recursive: true, force: true });
});

function watching(file: string): string {
  const path = join(folder, file);
  watch = watchFiles(() => {
    changes += 1;
  });
  watch.watch([path]);
  return path;
}

function looks(count: number): void {
  vi.advanceTimersByTime(250 * count);
}

test('a file that is written in place', () => {
  writeFileSync(join(folder, 'a'), '1');
  const file = watching('a');
  looks(3);
  expect(changes).toBe(0);

  writeFileSync(file, '22');
  looks(2);

  expect(changes).toBe(1);
  looks(5);
  expect(changes).toBe(1);
});

test('a file that is replaced by renaming, with the same size', () => {
  writeFileSync(join(folder, 'a'), '1');
  const file = watching('a');

  writeFileSync(join(folder, 'b'), '2');
  renameSync(join(folder, 'b'), file);
  looks(2);

  expect(changes).toBe(1);
});

test('links that are turned as a whole, as Kubernetes does', () => {
  for (const version of ['v1', 'v2']) {
    mkdirSync(join(folder, version));
    writeFileSync(join(folder, version, 'a'), version);
  }
  symlinkSync('v1', join(folder, '..data'));
  symlinkSync('..data/a', join(folder, 'a'));
  watching('a');

  symlinkSync('v2', join(folder, '..data_tmp'));
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
  looks(2);

  expect(changes).toBe(1);
});

test('a file that is still being written is waited for', () => {
  writeFileSync(join(folder, 'a'), '');
  const file = watching('a');

  for (let length = 1; length <= 4; length += 1) {
    writeFileSync(file, 'x'.repeat(length));
    looks(1);
  }
  expect(changes).toBe(0);
  looks(1);

  expect(changes).toBe(1);
});

test('a file that goes and comes back', () => {
  writeFileSync(join(folder, 'a'), '1');
  const file = watching('a');

  rmSync(file);
  looks(2);
  writeFileSync(file, '1');
  looks(2);

  expect(changes).toBe(2);
});

test('a change that somebody acts on already is not reported again, and the next one is', () => {
  writeFileSync(join(folder, 'a'), '1');
  const file = watching('a');

  writeFileSync(file, '22');
  looks(1);
  watch?.acted();
  looks(3);
  expect(changes).toBe(0);
  writeFileSync(file, '333');
  looks(2);

  expect(changes).toBe(1);
});

test('a change between two lists of files is not lost', () => {
  writeFileSync(join(folder, 'a'), '1');
  const file = watching('a');
  looks(2);

  writeFileSync(file, '22');
  watch?.watch([file, join(folder, 'b')]);
  looks(2);

  expect(changes).toBe(1);
});
