import type { Config } from '../config/config.ts';
import { CONFIG_FILE_VARIABLE } from '../config/environment.ts';
import { DEFAULT_SERVICE } from '../config/schema/service.ts';
import { hasBackend, loadConfig, type LoadedConfig } from '../config/load-config.ts';
import { loadConfigInThread, type ReadableSource } from '../config/load-in-thread.ts';
import { formatProblem, type ConfigProblem, whyUnreadable } from '../config/problem.ts';
import { ConfigRefused } from '../runtime/active-config.ts';
import type { Gateway, ReadConfigAgain } from '../runtime/gateway.ts';
import { listenProblem } from '../runtime/listen.ts';
import { logMissingBackend } from '../runtime/config-runtime.ts';
import { startGateway } from '../runtime/start-gateway.ts';
import { WorkerFailed } from '../runtime/worker-fleet.ts';
import {
  isWorker,
  linkToPrimary,
  reportFailure,
  startOfPrimary,
  type WorkerStart,
} from '../runtime/worker-link.ts';
import { createLogger, type Logger } from '../telemetry/logger.ts';
import { startVisitors, VISITED, demoFile, welcome, startDemoService } from './demo.ts';
import { DEFAULT_FILE } from '../config/starter.ts';
import { EXIT, type ExitCode, type Host, wantsColour } from './host.ts';

export interface RunOptions {
  readonly config?: string | undefined;
  /** The decision service without the proxy. Default: false. */
  readonly serveOnly?: boolean | undefined;
}

/** Runs a gateway until a signal ends it. */
export async function run(host: Host, options: RunOptions, version: string): Promise<ExitCode> {
  if (isWorker()) return startWorker(host, options, version);
  const source = configSource(host, options);
  return source.demo ? runDemo(host, version) : runSource({ host, source, version });
}

/** Nothing is configured: the gateway shows itself, in front of a service of its own. */
async function runDemo(host: Host, version: string): Promise<ExitCode> {
  const { env, readFile } = host;
  const service = await startDemoService();
  const source: ReadableSource = { file: demoFile(service.url), env, readFile };
  try {
    return await runSource({
      host,
      source: { file: undefined, demo: true, serveOnly: false, ...readersOf(() => source) },
      version,
    });
  } finally {
    service.close();
  }
}

async function runSource({ host, source, version }: Omit<Running, 'loaded'>): Promise<ExitCode> {
  const loaded = source.read();
  for (const problem of loaded.problems) host.writeError(`${formatProblem(problem)}\n`);
  return loaded.ok ? runGateway({ host, source, loaded, version }) : refuse(host, source.file);
}

interface Running {
  readonly host: Host;
  readonly source: Source;
  readonly loaded: Extract<LoadedConfig, { readonly ok: true }>;
  readonly version: string;
}

async function runGateway({ host, source, loaded: { config }, version }: Running): Promise<ExitCode> {
  const logger = createLogger({
    config: config.logging,
    colours: wantsColour(host.env, host.outputIsTerminal),
    terminal: host.outputIsTerminal,
    shared: config.server.workers > 1,
  });
  const stopped = stopSignal(host);
  let running: Gateway | undefined;
  // Before it runs there is nothing to reload, and no reason to end.
  host.onSignal('SIGHUP', () => void running?.reload());
  host.onCrash((err) => void crash(host, logger, err));
  try {
    const gateway = await startGateway({
      readConfig: source.read,
      readConfigAgain: source.readAgain,
      configFile: source.file,
      logger: source.demo ? withoutVisitors(logger) : logger,
      version,
      serveOnly: source.serveOnly,
    });
    running = gateway;
    if (source.demo) host.write(welcome({ host, version, gateway, unusedFile: unusedFile(host) }));
    else announce(gateway, logger, { version, source });
    const noMoreVisits =
      source.demo && !config.server.tls.enabled ? startVisitors(gateway.address()) : undefined;
    const signal = await stopped;
    noMoreVisits?.();
    await drainAt(signal, gateway, logger);
    // Whatever may still hold the process, such as a timer of a client: everything is done.
    host.exit(EXIT.ok);
    return EXIT.ok;
  } catch (failure) {
    await logger.flush();
    host.writeError(`${startProblem(failure, config)}\n`);
    return EXIT.problems;
  }
}

/** Nobody wants to read what the made-up visitors of the demo ask for. */
function withoutVisitors(logger: Logger): Logger {
  return {
    ...logger,
    access: (request) => {
      if (!request.path.startsWith(VISITED)) logger.access(request);
    },
  };
}

/** A worker uses what the primary process uses: the file on the disk may have been refused, or be half-written. */
async function startWorker(host: Host, options: RunOptions, version: string): Promise<ExitCode> {
  const { file } = configSource(host, options);
  const { fileText, settings } = await startOfPrimary();
  const readFile = (path: string): string => (path === file ? fileText() : undefined) ?? host.readFile(path);
  const source = configSource({ ...host, readFile }, options);
  const loaded = source.read();
  if (loaded.ok) return runWorker({ host, source, loaded, version, settings });
  await reportFailure(loaded.problems.map(formatProblem).join('\n'));
  host.exit(EXIT.problems);
  return EXIT.problems;
}

/** One of several processes: the primary one has the word, signals included. */
async function runWorker({
  host,
  source,
  loaded: { config },
  version,
  settings,
}: Running & Pick<WorkerStart, 'settings'>): Promise<ExitCode> {
  const logger = createLogger({
    config: config.logging,
    colours: wantsColour(host.env, host.outputIsTerminal),
    terminal: host.outputIsTerminal,
  });
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) host.onSignal(signal, () => undefined);
  host.onCrash((err) => void crash(host, logger, err));
  try {
    const gateway = await startGateway({
      readConfig: source.read,
      readConfigAgain: source.readAgain,
      logger,
      version,
      worker: true,
      settings,
      serveOnly: source.serveOnly,
    });
    const { stopped } = linkToPrimary(gateway);
    await stopped;
    await gateway.drain();
    await logger.flush();
    host.exit(EXIT.ok);
    return EXIT.ok;
  } catch (failure) {
    await reportFailure(startProblem(failure, config));
    host.exit(EXIT.problems);
    return EXIT.problems;
  }
}

/** Why a gateway does not start; unexpected failures are rethrown. */
function startProblem(failure: unknown, config: Config): string {
  if (failure instanceof WorkerFailed) return failure.message;
  if (failure instanceof ConfigRefused) {
    return [...failure.problems.map(formatProblem), 'The gateway does not start.'].join('\n');
  }
  const message = listenProblem(failure, config);
  if (message === undefined) throw failure;
  return message;
}

interface Source {
  readonly file: string | undefined;
  /** Nothing is configured: the gateway shows itself. */
  readonly demo: boolean;
  readonly serveOnly: boolean;
  readonly read: () => LoadedConfig;
  /** The same without holding up requests. */
  readonly readAgain: ReadConfigAgain;
}

function configSource(host: Host, options: RunOptions): Source {
  const { env, readFile } = host;
  const { serveOnly = false } = options;
  const named = options.config ?? env[CONFIG_FILE_VARIABLE];
  const file = named === '' ? undefined : named;
  const offered = (readers: Readers): Readers => (serveOnly ? withService(readers) : readers);
  if (file !== undefined) {
    return { file, demo: false, serveOnly, ...offered(readersOf(() => sourceAt(host, file))) };
  }
  const readers = offered(readersOf(() => ({ env, readFile })));
  const bare = readers.read();
  return { file: undefined, demo: !serveOnly && bare.ok && isDemo(bare.config), serveOnly, ...readers };
}

type Readers = Pick<Source, 'read' | 'readAgain'>;

/** Who asks for the service gets it, also if the configuration does not mention it. */
function withService({ read, readAgain }: Readers): Readers {
  const served = (loaded: LoadedConfig): LoadedConfig =>
    !loaded.ok || loaded.config.service !== undefined
      ? loaded
      : { ...loaded, config: { ...loaded.config, service: DEFAULT_SERVICE } };
  return { read: () => served(read()), readAgain: async (text) => served(await readAgain(text)) };
}

function readersOf(open: () => ReadableSource | ConfigProblem): Readers {
  const refused = (problem: ConfigProblem): LoadedConfig => ({ ok: false, problems: [problem] });
  return {
    read: () => {
      const source = open();
      return 'message' in source ? refused(source) : loadConfig(source);
    },
    readAgain: async (text) => {
      const source = open();
      if ('message' in source) return refused(source);
      const path = source.file?.path ?? DEFAULT_FILE;
      return loadConfigInThread(text === undefined ? source : { ...source, file: { path, text } });
    },
  };
}

/**
 * The demo shows everyone the headers of their requests: it must not answer for a service that someone meant to
 * configure.
 */
function isDemo(config: Config): boolean {
  return !hasBackend(config) && !config.rate_limit.external.enabled && config.server.workers === 1;
}

/** A file that a newcomer may think is used: it lies here, but nobody named it. */
function unusedFile({ readFile }: Host): string | undefined {
  try {
    readFile(DEFAULT_FILE);
    return DEFAULT_FILE;
  } catch {
    return undefined;
  }
}

function sourceAt({ env, program, readFile }: Host, path: string): ReadableSource | ConfigProblem {
  try {
    return { file: { path, text: readFile(path) }, env, readFile };
  } catch (failure) {
    return unreadable(program, path, failure);
  }
}

function unreadable(program: string, path: string, failure: unknown): ConfigProblem {
  return {
    severity: 'error',
    origin: { from: 'file', file: path, line: 1, column: 1 },
    path: '',
    message: `the file ${whyUnreadable(failure)}`,
    suggestion: `Name another, or write a starter file with: ${program} init.`,
  };
}

function refuse(host: Host, file: string | undefined): ExitCode {
  host.writeError(`The gateway does not start: ${file ?? 'the configuration'} cannot be used.\n`);
  return EXIT.problems;
}

function announce(
  gateway: Gateway,
  logger: Logger,
  { version, source }: { readonly version: string; readonly source: Source },
): void {
  const { address, port } = gateway.address();
  const admin = gateway.adminAddress();
  const { config } = gateway.live();
  if (!source.serveOnly) logMissingBackend(config, logger);
  const service = gateway.serviceAddress();
  logger.info(
    {
      version,
      config: source.file,
      address,
      port,
      adminAddress: admin?.address,
      adminPort: admin?.port,
      serviceAddress: service?.address,
      servicePort: service?.port,
      store: config.redis === undefined ? 'memory' : 'redis',
    },
    source.serveOnly ? 'the decision service is ready' : 'the gateway is ready',
  );
}

/** The signal that asks for the end. A second one ends the process at once. */
async function stopSignal(host: Host): Promise<string> {
  return new Promise((resolve) => {
    let asked = false;
    for (const name of ['SIGTERM', 'SIGINT'] as const) {
      host.onSignal(name, () => {
        if (asked) host.exit(EXIT.problems);
        asked = true;
        resolve(name);
      });
    }
  });
}

async function drainAt(signal: string, gateway: Gateway, logger: Logger): Promise<void> {
  logger.info({ signal }, 'the gateway finishes what is under way; a second signal ends it at once');
  await gateway.drain();
  logger.info({}, 'the gateway has ended');
  await logger.flush();
}

async function crash(host: Host, logger: Logger, err: unknown): Promise<void> {
  logger.error({ err }, 'unexpected error: the gateway exits');
  await logger.flush();
  host.exit(EXIT.problems);
}
