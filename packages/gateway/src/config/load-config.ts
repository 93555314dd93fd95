import { configSchema, type Config } from './config.ts';
import { crossFieldFindings } from './cross-field-checks/index.ts';
import {
  readEnvironment,
  type EnvironmentReading,
  type GatewayEnvironment,
  type EnvironmentValue,
  readForeignVariables,
} from './environment.ts';
import { settingIssues } from './issues.ts';
import { isTree, pathText, startsWith, type Path, valueAt } from './path.ts';
import { sortProblems, type Origin, type ConfigProblem } from './problem.ts';
import { ONCE, PathSet, salvage, type Readable } from './salvage.ts';
import {
  isInFile,
  locateInFile,
  readYamlTree,
  type FilePlaces,
  type YamlFile,
  type YamlTree,
} from './yaml-tree.ts';

/** Where a configuration comes from. Variables win over the file, and the file over defaults. */
export interface ConfigSource {
  readonly file?: YamlFile | undefined;
  readonly env?: GatewayEnvironment | undefined;
  /** Reads the files that `..._FILE` variables name. Without it they are refused. */
  readonly readFile?: ((path: string) => string) | undefined;
}

export type LoadedConfig =
  | {
      readonly ok: true;
      readonly config: Config;
      /** Where the value of a setting was written. */
      readonly originOf: (path: Path) => Origin;
      /** The file that it was read from, as it stood then. */
      readonly fileText: string | undefined;
      /** Warnings. */
      readonly problems: readonly ConfigProblem[];
    }
  | { readonly ok: false; readonly problems: readonly ConfigProblem[] };

/**
 * Reads, checks and completes a configuration, and reports every problem at once. It never throws for what a user
 * wrote.
 *
 * @example
 * const loaded = loadConfig({ file: { path: 'gateway.yaml', text }, env: process.env });
 * if (!loaded.ok) for (const problem of loaded.problems) console.error(formatProblem(problem));
 */
export function loadConfig({ file, env = {}, readFile = refuseFiles }: ConfigSource): LoadedConfig {
  return toLoadedConfig(checkConfig(file, readEnvironment(env, readFile)));
}

/** What `loadConfig` finds out, in plain values: another thread can do this part and send it. */
export type CheckedConfig =
  | {
      readonly ok: true;
      readonly config: Config;
      readonly writtenAt: WrittenAt;
      readonly fileText: string | undefined;
      readonly problems: readonly ConfigProblem[];
    }
  | { readonly ok: false; readonly problems: readonly ConfigProblem[] };

interface WrittenAt {
  readonly file: FilePlaces | undefined;
  readonly variables: readonly Pick<EnvironmentValue, 'keys' | 'origin'>[];
}

export function toLoadedConfig(checked: CheckedConfig): LoadedConfig {
  if (!checked.ok) return checked;
  const { writtenAt, ...rest } = checked;
  const places = new Places(writtenAt);
  return { ...rest, originOf: (path) => places.originOf(path) };
}

export function checkConfig(file: YamlFile | undefined, environment: EnvironmentReading): CheckedConfig {
  const tree = file === undefined ? NO_FILE : readYamlTree(file);
  const written = checkRoot(tree);
  const own = environment.values.reduce<unknown>(withValue, written.value);
  const foreign = readForeignVariables(environment.foreign, own);
  const variables = [...environment.values, ...foreign.values];
  const early = [...tree.problems, ...environment.problems, ...foreign.problems, ...written.problems];
  const writtenAt = {
    file: tree.places,
    variables: variables.map(({ keys, origin }) => ({ keys, origin })),
  };
  const places = new Places(writtenAt);
  const { tree: merged, idle } = withoutIdleSettings(foreign.values.reduce<unknown>(withValue, own));
  const unused = idle.map(({ path, suggestion }): ConfigProblem => ({
    severity: 'warning',
    origin: places.find([path], 'key'),
    path: pathText(path),
    message: `${pathText(path)} has no effect here`,
    suggestion,
  }));

  const parsed = configSchema.safeParse(merged, ONCE);
  const issues = parsed.success ? [] : settingIssues(parsed.error.issues, merged);
  const wrong = issues.slice(0, MAX_PROBLEMS).map(({ path, about, describe }): ConfigProblem => ({
    severity: 'error',
    origin: places.find([path], about),
    path: pathText(path),
    ...describe(),
  }));
  const readable = parsed.success
    ? { config: parsed.data, left: new PathSet() }
    : salvage(
        merged,
        issues.map(({ path }) => path),
      );
  const findings = tree.value === undefined ? [] : places.findings(readable);
  const all = sortProblems([...early, ...unused, ...wrong, ...findings]);
  const problems = bounded(all, issues.length - wrong.length);
  if (!parsed.success || problems.some(({ severity }) => severity === 'error'))
    return { ok: false, problems };
  return { ok: true, config: parsed.data, writtenAt, fileText: file?.text, problems };
}

/** Nobody reads more of them, and finding out what was meant takes time for each. */
const MAX_PROBLEMS = 100;

/** Errors before warnings where there are too many; the last line says how many are left out. */
function bounded(problems: readonly ConfigProblem[], leftOut: number): readonly ConfigProblem[] {
  if (problems.length <= MAX_PROBLEMS && leftOut === 0) return problems;
  const errors = problems.filter(({ severity }) => severity === 'error');
  const warnings = problems.filter(({ severity }) => severity === 'warning');
  const shown = sortProblems([...errors, ...warnings].slice(0, MAX_PROBLEMS));
  const more = problems.length - shown.length + leftOut;
  const last = shown.at(-1);
  if (more === 0 || last === undefined) return shown;
  return [
    ...shown,
    {
      severity: errors.length > 0 ? 'error' : 'warning',
      origin: last.origin,
      path: '',
      message: `${more} more ${more === 1 ? 'problem is' : 'problems are'} not shown`,
      suggestion: 'Fix these first.',
    },
  ];
}

const NO_FILE = { value: {}, problems: [], places: undefined };

function refuseFiles(): string {
  throw new Error('no files can be read here');
}

/** A file has to say something: an empty one is half-written, or not the one that was meant. */
function checkRoot(tree: YamlTree | typeof NO_FILE): { value: unknown; problems: readonly ConfigProblem[] } {
  if (isTree(tree.value)) return { value: tree.value, problems: [] };
  if (tree.problems.length > 0 || tree.places === undefined) return { value: {}, problems: [] };
  const empty = tree.value === null || tree.value === undefined;
  const problem: ConfigProblem = {
    severity: 'error',
    origin: locateInFile(tree.places, [], 'value'),
    path: '',
    message: empty ? 'the file is empty' : 'the file is not a map of settings',
    suggestion: 'Write a starter file with: spillgate init.',
  };
  return { value: {}, problems: [problem] };
}

/** The tree with one more value. Anything but a section stays as it is: the schema reports it. */
function withValue(tree: unknown, { keys, value }: Pick<EnvironmentValue, 'keys' | 'value'>): unknown {
  const [key, ...rest] = keys;
  if (key === undefined) return value;
  if (tree !== undefined && !isTree(tree)) return tree;
  return { ...tree, [key]: withValue(tree?.[key], { keys: rest, value }) };
}

/** Who wrote what. */
class Places {
  private readonly file: FilePlaces | undefined;
  private readonly variables: WrittenAt['variables'];

  constructor({ file, variables }: WrittenAt) {
    this.file = file;
    this.variables = variables;
  }

  originOf(path: Path): Origin {
    const variable = this.variables.find(({ keys }) => startsWith(path, keys));
    if (variable !== undefined) return variable.origin;
    return this.has(path) ? this.locate(path, 'value') : { from: 'default' };
  }

  /** The first of these paths that someone wrote, else its nearest parent. */
  find(paths: readonly [Path, ...Path[]], about: 'key' | 'value'): Origin {
    for (const path of paths) {
      const variable = this.variables.find(({ keys }) => startsWith(path, keys));
      if (variable !== undefined) return variable.origin;
      if (this.has(path)) return this.locate(path, about);
    }
    const [first] = paths;
    const inside = this.variables.find(({ keys }) => startsWith(keys, first.slice(0, -1)));
    const parentInFile = first.some((_, at) => this.has(first.slice(0, at)));
    return inside !== undefined && !parentInFile ? inside.origin : this.locate(first, about);
  }

  private has(path: Path): boolean {
    return this.file !== undefined && isInFile(this.file, path);
  }

  private locate(path: Path, about: 'key' | 'value'): Origin {
    return this.file === undefined ? { from: 'default' } : locateInFile(this.file, path, about);
  }

  findings({ config, left }: Readable): readonly ConfigProblem[] {
    if (config === undefined) return [];
    return crossFieldFindings(config)
      .filter(({ paths }) => !paths.some((path) => left.touches(path)))
      .map(({ severity, paths, message, suggestion }) => ({
        severity,
        origin: this.find(paths, 'value'),
        path: pathText(paths[0]),
        message,
        suggestion,
      }));
  }
}

/** Whether a configuration names a service. */
export function hasBackend({ backend, backends }: Config): boolean {
  return [backend, ...Object.values(backends)].some(
    ({ url, upstreams }) => url !== undefined || upstreams.length > 0,
  );
}

/**
 * What to say about a file that names no service. Not among the problems of `loadConfig`: parts of configurations are
 * loaded as well, and the demonstration has no service on purpose.
 */
export function missingBackend(loaded: LoadedConfig, file: string | undefined): readonly ConfigProblem[] {
  if (!loaded.ok || file === undefined || hasBackend(loaded.config)) return [];
  // Other proxies ask it about limits, and have backends of their own.
  if (loaded.config.service !== undefined) return [];
  const consequence = withoutBackend(loaded.config);
  const section = loaded.originOf(['backend']);
  return [
    {
      ...consequence,
      origin: section.from === 'file' ? section : { from: 'file', file, line: 1, column: 1 },
      path: 'backend.url',
      message: `neither backend.url nor backend.upstreams is set, so ${consequence.message}`,
    },
  ];
}

/**
 * A limits service may name the backend of every request that it is asked about, and is not asked about all. That it
 * is meant to, the hosts show that it may name: without them, forgetting `backend.url` would look the same.
 */
function withoutBackend({
  backend: { url_policy },
  rate_limit: { external, rules },
}: Config): Pick<ConfigProblem, 'severity' | 'message' | 'suggestion'> {
  const setUrl = 'Set backend.url to the address of your service';
  if (!external.enabled)
    return { severity: 'error', message: 'every request gets a 502', suggestion: `${setUrl}.` };
  const unlimited = rules.find(({ policies }) => policies.length === 0);
  if (unlimited !== undefined) {
    return {
      severity: 'error',
      message: `requests of the rule ${JSON.stringify(unlimited.name)} get a 502: it limits nothing, and the limits service, which could name a backend, is not asked about it`,
      suggestion: `${setUrl}.`,
    };
  }
  const areNamed = url_policy.allowed_hosts.length > 0;
  return {
    severity: areNamed ? 'warning' : 'error',
    message: 'requests get a 502 unless the limits service names a backend',
    suggestion: areNamed
      ? `${setUrl}.`
      : `${setUrl}, or, if the limits service names a backend for every request, their hosts in backend.url_policy.allowed_hosts.`,
  };
}

/**
 * A setting of another gateway that has nothing to do here: leaving it out changes nothing that anybody relies on, so a
 * file that has it can be used, with a warning. What would loosen a limit or a check stays an error.
 */
interface IdleSetting {
  readonly path: Path;
  /** What to do about it. */
  readonly suggestion: string;
}

/** The tree without its idle settings, and what they were. */
function withoutIdleSettings(tree: unknown): {
  readonly tree: unknown;
  readonly idle: readonly IdleSetting[];
} {
  const idle = IDLE.filter(({ path, onlyIf }) => {
    const value = valueAt(tree, path);
    // A section is something else than the setting of that name.
    return value !== undefined && !isTree(value) && (onlyIf === undefined || value === onlyIf);
  });
  return { tree: idle.reduce<unknown>((rest, { path }) => without(rest, path), tree), idle };
}

function without(tree: unknown, [name, ...inner]: Path): unknown {
  if (!isTree(tree) || name === undefined) return tree;
  const { [name]: value, ...others } = tree;
  return inner.length === 0 ? others : { ...tree, [name]: without(value, inner) };
}

interface IdleRow extends IdleSetting {
  /** Idle with this value only: with any other one it asks for something. */
  readonly onlyIf?: unknown;
}

const ONE_CONNECTION = 'Remove it: one pipelined connection per server carries all calls.';
const NO_HTTP3 = 'Remove it: there is no HTTP/3 here, and clients use HTTP/2 or HTTP/1.1.';
const DIAL = 'Remove it: backend.transport.dial_timeout bounds the whole way to a connection.';
const PINGED = 'Remove it: after a time-out the connection is pinged, and replaced if it does not answer.';
const SYSTEM_KEEP_ALIVE = 'Remove it: backend.idle_conn_timeout closes connections that nobody uses.';

const IDLE: readonly IdleRow[] = [
  ...['redis', 'cache_redis'].flatMap((section) => [
    row(`${section}.write_timeout`, `Remove it: ${section}.read_timeout bounds a whole call.`),
    ...['min_idle_conns', 'max_idle_conns', 'max_conns', 'pool_timeout'].map((name) =>
      row(`${section}.${name}`, ONE_CONNECTION),
    ),
  ]),
  row('rate_limit.min_ttl', 'Remove it: a state expires when it says nothing any more.'),
  row('server.tls.http3_enabled', NO_HTTP3),
  row('server.tls.http3_advertise_port', NO_HTTP3),
  row(
    'backend.max_idle_conns',
    'Remove it: backend.max_conns bounds all connections, and backend.idle_conn_timeout closes unused ones.',
  ),
  {
    ...row(
      'backend.tls_insecure_skip_verify',
      'Remove it: certificates are verified unless you say otherwise.',
    ),
    onlyIf: false,
  },
  row('backend.transport.dial_keep_alive', SYSTEM_KEEP_ALIVE),
  row('backend.transport.tls_handshake_timeout', DIAL),
  row('backend.transport.websocket_dial_timeout', DIAL),
  row(
    'backend.transport.expect_continue_timeout',
    'Remove it: the gateway answers Expect itself and sends bodies at once.',
  ),
  row('backend.transport.h2_read_idle_timeout', PINGED),
  row('backend.transport.h2_ping_timeout', PINGED),
  row('backend.transport.h3_udp_receive_buffer_size', NO_HTTP3),
  row('backend.transport.h3_udp_send_buffer_size', NO_HTTP3),
];

function row(path: string, suggestion: string): IdleRow {
  return { path: path.split('.'), suggestion };
}
