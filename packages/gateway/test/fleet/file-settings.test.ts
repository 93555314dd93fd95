// Settings of keys in a file: what it does not take does not hold.
import { mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readSetting, type KeySetting } from 'spillgate/internal';
import { expect, onTestFinished, test } from 'vitest';
import { FileSettings } from '../../src/fleet/settings-store.ts';

function folder(): { readonly path: string; readonly file: string } {
  const path = mkdtempSync(join(tmpdir(), 'spillgate-settings-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return { path, file: join(path, 'overrides.json') };
}

function block(key: string): KeySetting {
  const text = JSON.stringify({ kind: 'block', policy: 'api', key, setAt: '2026-01-01T00:00:00.000Z' });
  const setting = readSetting(text);
  if (setting === undefined) throw new Error(`not a setting: ${text}`);
  return setting;
}

test('a change that cannot be saved does not hold, and is not saved with the next', async () => {
  const { path, file } = folder();
  const settings = new FileSettings(path);
  // Nothing can take the place of a folder.
  mkdirSync(file);
  await expect(settings.write(block('ann'))).rejects.toThrow('rename');
  const afterFailure = await settings.read(undefined);
  rmdirSync(file);

  await settings.write(block('bob'));

  expect(afterFailure?.settings).toEqual([]);
  expect(readFileSync(file, 'utf8')).toContain('bob');
  expect(readFileSync(file, 'utf8')).not.toContain('ann');
});

test.each(['null', '7', '"text"', '[]', '{}', ''])('a file of %j is refused, not overwritten', (text) => {
  const { path, file } = folder();
  writeFileSync(file, text);

  expect(() => new FileSettings(path)).toThrow(/cannot be read \(not as the gateway writes it\)/);
});
