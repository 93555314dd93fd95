import { dirname, join } from 'node:path';
import { exactPaths } from '../config/cross-field-checks/reach.ts';
import { writtenKeyFindings } from '../config/cross-field-checks/written-keys.ts';
import { effectiveSettings, effectiveYaml, maskedConfig } from '../config/effective.ts';
import { CONFIG_FILE_VARIABLE } from '../config/environment.ts';
import { jsonSchema } from '../config/settings.ts';
import { loadConfig, type LoadedConfig, missingBackend } from '../config/load-config.ts';
import { pathText } from '../config/path.ts';
import { formatOrigin, sortProblems, type ConfigProblem, whyUnreadable } from '../config/problem.ts';
import { SCHEMA_FILE, STARTER_FILE } from '../config/starter.ts';
import { STARTERS } from '../config/starters.ts';
import { shown } from '../config/shown.ts';
import { keyNamesOf } from '../identity/api-keys/key-file.ts';
import { fileProblems } from '../runtime/named-files.ts';
import { EXIT, type ExitCode, type Host, paintFor, type Paint } from './host.ts';

export interface OutputOptions {
  readonly json?: boolean | undefined;
}

/** Reports every problem of a file. The environment counts too: it is what the gateway would run with. */
export function check(host: Host, file: string, { json = false }: OutputOptions): ExitCode {
  const loaded = load(host, file);
  if (typeof loaded === 'number') return loaded;
  const problems = sortProblems([
    ...loaded.problems,
    ...(loaded.ok ? [...filesAsSeenHere(loaded, host), ...adviceFor(loaded, host)] : []),
  ]);
  const ok = !problems.some(({ severity }) => severity === 'error');
  if (json) {
    host.write(`${JSON.stringify({ ok, problems }, undefined, 2)}\n`);
    return ok ? EXIT.ok : EXIT.problems;
  }
  const paint = paintFor(host.env, host.outputIsTerminal);
  for (const problem of problems) host.write(`${paintProblem(problem, paint)}\n`);
  host.write(
    `${ok ? paint('green', `${file} is valid`) : paint('red', `${file} cannot be used`)}${count(problems)}.\n`,
  );
  return ok ? EXIT.ok : EXIT.problems;
}

export function showConfig(
  host: Host,
  { config: file, json = false }: OutputOptions & { readonly config?: string | undefined },
): ExitCode {
  const loaded = load(host, file ?? given(host.env[CONFIG_FILE_VARIABLE]));
  if (typeof loaded === 'number') return loaded;
  const paint = paintFor(host.env, host.errorIsTerminal);
  for (const problem of loaded.problems) host.writeError(`${paintProblem(problem, paint)}\n`);
  if (!loaded.ok) return EXIT.problems;
  const { config, originOf } = loaded;
  const names = keyNamesOf(config, host.readFile);
  const output = json
    ? JSON.stringify(
        { config: maskedConfig(config, names), settings: effectiveSettings(config, originOf, names) },
        undefined,
        2,
      )
    : effectiveYaml(config, originOf, names).trimEnd();
  host.write(`${output}\n`);
  return EXIT.ok;
}

export interface InitOptions {
  readonly force?: boolean | undefined;
  /** What the configuration is for; one of `STARTERS`. */
  readonly for?: string | undefined;
}

export function init(host: Host, file: string, { force = false, for: kind }: InitOptions): ExitCode {
  const starter = kind === undefined ? undefined : STARTERS.get(kind);
  if (kind !== undefined && starter === undefined) {
    host.writeError(`--for is ${shown(kind)}; expected one of ${[...STARTERS.keys()].join(', ')}.\n`);
    return EXIT.usage;
  }
  const companions = starter?.companions ?? [];
  const config = (starter?.config ?? STARTER_FILE).replaceAll('@FILE@', file);
  const files = [
    { name: file, text: config, replace: force },
    ...companions.map(({ name, text }) => ({ name: join(dirname(file), name), text, replace: force })),
    { name: join(dirname(file), SCHEMA_FILE), text: schemaText(), replace: true },
  ];
  for (const { name, text, replace } of files) {
    const problem = written(host, { name, text, replace });
    if (problem === undefined) continue;
    host.writeError(problem);
    return EXIT.usage;
  }
  if (starter !== undefined) {
    const names = [file, ...companions.map(({ name }) => name)].join(', ');
    const next = starter.next.replaceAll('@FILE@', file).replaceAll('@PROGRAM@', host.program);
    host.write(`Wrote ${names}, and ${SCHEMA_FILE} for your editor. Next: ${next}\n`);
    return EXIT.ok;
  }
  host.write(
    `Wrote ${file}, and ${SCHEMA_FILE} for your editor. Set backend.url, then: ${host.program} check ${file} and ${host.program} run ${file}\n`,
  );
  return EXIT.ok;
}

/** Why a file was not written; undefined if it was. */
function written(
  host: Host,
  { name, text, replace }: { readonly name: string; readonly text: string; readonly replace: boolean },
): string | undefined {
  try {
    host.writeFile(name, text, replace);
    return undefined;
  } catch (failure) {
    return codeOf(failure) === 'EEXIST'
      ? `${name} exists already, and was not changed. Use --force to replace it.\n`
      : `${name} cannot be written (${codeOf(failure)}).\n`;
  }
}

export function schema(host: Host): ExitCode {
  host.write(schemaText());
  return EXIT.ok;
}

function schemaText(): string {
  return `${JSON.stringify(jsonSchema(), undefined, 2)}\n`;
}

/** What may be right as it is: a gateway that starts does not say it. */
function adviceFor({ config, originOf }: AcceptedConfig, host: Host): readonly ConfigProblem[] {
  const findings = [
    ...exactPaths(config.rate_limit),
    // Where a file has the keys, the configuration alone does not say who is meant.
    ...writtenKeyFindings(config, keyNamesOf(config, host.readFile)),
  ];
  return findings.map(({ paths, ...finding }) => ({
    ...finding,
    origin: originOf(paths[0]),
    path: pathText(paths[0]),
  }));
}

type AcceptedConfig = Extract<LoadedConfig, { readonly ok: true }>;

/** A configuration is also checked where its secrets are not: a file that cannot be read is a warning only. */
function filesAsSeenHere(loaded: AcceptedConfig, { readFile }: Host): readonly ConfigProblem[] {
  return fileProblems(loaded, { readFile }).map(({ problem, unreadable }) =>
    unreadable
      ? {
          ...problem,
          severity: 'warning',
          message: `${problem.message} here`,
          suggestion: 'The gateway does not start without it.',
        }
      : problem,
  );
}

function load(host: Host, file: string | undefined): LoadedConfig | ExitCode {
  const { env, readFile } = host;
  if (file === undefined) return loadConfig({ env, readFile });
  try {
    const loaded = loadConfig({ file: { path: file, text: readFile(file) }, env, readFile });
    return { ...loaded, problems: sortProblems([...loaded.problems, ...missingBackend(loaded, file)]) };
  } catch (failure) {
    if (codeOf(failure) === '') throw failure;
    host.writeError(`${file} ${whyUnreadable(failure)}.\n`);
    return EXIT.usage;
  }
}

function paintProblem({ origin, severity, message, suggestion }: ConfigProblem, paint: Paint): string {
  const colour = severity === 'error' ? 'red' : 'yellow';
  const advice = suggestion === undefined ? '' : ` ${paint('dim', suggestion)}`;
  return `${paint('bold', formatOrigin(origin))}: ${paint(colour, severity)}: ${message}.${advice}`;
}

function count(problems: readonly ConfigProblem[]): string {
  const errors = problems.filter(({ severity }) => severity === 'error').length;
  const warnings = problems.length - errors;
  const parts = [
    ...(errors > 0 ? [`${errors} ${errors === 1 ? 'error' : 'errors'}`] : []),
    ...(warnings > 0 ? [`${warnings} ${warnings === 1 ? 'warning' : 'warnings'}`] : []),
  ];
  return parts.length === 0 ? '' : `: ${parts.join(', ')}`;
}

function given(text: string | undefined): string | undefined {
  return text === '' ? undefined : text;
}

function codeOf(failure: unknown): string {
  return failure instanceof Error && 'code' in failure ? String(failure.code) : '';
}
