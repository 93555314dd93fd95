import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RlsConfig } from '../../config/schema/service.ts';
import { SettingError, unreadableFile } from '../../config/problem.ts';
import { DescriptorFileError, readDescriptorFile, type DescriptorFile } from './descriptor-file.ts';

/** The files of `service.rls.directory`. */
export interface DescriptorFiles {
  readonly files: readonly DescriptorFile[];
  /** What they say, by their paths; the folder itself is among them with its list of names. */
  readonly texts: ReadonlyMap<string, string>;
}

const NONE: DescriptorFiles = { files: [], texts: new Map() };
const PATH = ['service', 'rls', 'directory'];
const MAX_FILES = 1000;

/** Reads them all; throws a `SettingError` that says what is wrong, in the words of the reference server. */
export function readDescriptorFiles(rls: RlsConfig | undefined): DescriptorFiles {
  if (rls?.directory === undefined) return NONE;
  const { directory } = rls;
  const names = namesIn(directory);
  const texts = new Map([[directory, names.join('\n')]]);
  const domains = new Set<string>();
  const files = names.map((name) => {
    const path = join(directory, name);
    const text = textOf(path);
    texts.set(path, text);
    const file = parsed(path, text);
    if (domains.has(file.domain) && !rls.merge_domains) {
      throw refused(path, `duplicate domain '${file.domain}' in config file`);
    }
    domains.add(file.domain);
    return file;
  });
  return { files, texts };
}

/** In the order of their names. Kubernetes keeps files of its own there, which begin with a dot. */
function namesIn(directory: string): readonly string[] {
  let names: readonly string[];
  try {
    names = readdirSync(directory);
  } catch (failure) {
    throw unreadableFile(PATH, directory, failure);
  }
  const found = names.filter((name) => /^[^.].*\.ya?ml$/i.test(name)).toSorted();
  if (found.length > MAX_FILES) {
    throw new SettingError(
      PATH,
      `service.rls.directory: ${directory} has ${found.length} files, and at most ${MAX_FILES} are read`,
      'Put several domains into one folder each, or fewer files into this one.',
    );
  }
  return found;
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (failure) {
    throw unreadableFile(PATH, path, failure);
  }
}

function parsed(path: string, text: string): DescriptorFile {
  try {
    return readDescriptorFile(text);
  } catch (failure) {
    if (failure instanceof DescriptorFileError) throw refused(path, failure.message);
    throw failure;
  }
}

function refused(path: string, message: string): SettingError {
  return new SettingError(PATH, `${path}: ${message}`, 'Correct the file.');
}
