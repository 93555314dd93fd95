import type { Config } from '../config/config.ts';
import { pathText, type Path } from '../config/path.ts';
import type { Origin, Problem } from '../config/problem.ts';
import { errorCode, SettingError } from '../config/setting-error.ts';
import { keyMaterial, type TlsTexts } from '../proxy/tls/key-material.ts';
import { tlsFiles } from '../proxy/tls/server-tls.ts';
import { namedFiles, type NamedFile } from '../runtime/named-files.ts';

interface Checked {
  readonly config: Config;
  readonly originOf: (path: Path) => Origin;
}

/**
 * What a gateway would say about the files that a configuration names. One that cannot be read is a warning only: a
 * configuration is also checked where its secrets are not.
 */
export function fileProblems(
  { config, originOf }: Checked,
  readFile: (path: string) => string,
): readonly Problem[] {
  const { tls } = config.server;
  const problems: Problem[] = [];
  const read = ({ path, file }: NamedFile): string | undefined => {
    try {
      return readFile(file);
    } catch (failure) {
      problems.push({
        severity: 'warning',
        origin: originOf(path),
        path: pathText(path),
        message: `${pathText(path)}: ${file} cannot be read here (${errorCode(failure)})`,
        suggestion: 'The gateway does not start without it.',
      });
      return undefined;
    }
  };
  for (const named of namedFiles(config)) read(named);
  if (!tls.enabled) return problems;
  const texts = tlsFiles(tls).map(
    ({ file, path }) => [file, read({ path: ['server', 'tls', file], file: path })] as const,
  );
  if (texts.some(([, text]) => text === undefined)) return problems;
  return [...problems, ...pairProblems({ config, originOf }, Object.fromEntries(texts))];
}

function pairProblems({ config, originOf }: Checked, texts: TlsTexts): readonly Problem[] {
  try {
    keyMaterial(config.server.tls, texts);
    return [];
  } catch (failure) {
    if (!(failure instanceof SettingError)) throw failure;
    return [failure.problem(originOf)];
  }
}
