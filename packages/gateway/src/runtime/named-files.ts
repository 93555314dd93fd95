import { statSync } from 'node:fs';
import type { ConfigInUse } from '../admin/control.ts';
import type { Config } from '../config/config.ts';
import type { Path } from '../config/path.ts';
import { certificateOfPair, certificatesIn, type NamedFile, type PemFile } from '../config/pem-files.ts';
import { SettingError, unreadableFile, type ConfigProblem } from '../config/problem.ts';
import { keyFileProblems } from '../identity/api-keys/key-file.ts';
import { JWKS_FILE, publicKeysIn, readKeyFile } from '../identity/jwt/jwk-set.ts';
import { keyMaterial, tlsFiles } from '../proxy/tls/server-tls.ts';
import { usableFolder } from '../fleet/settings-store.ts';
import { readDescriptorFiles } from '../service/rls/descriptor-directory.ts';

const CLIENT_FILES = ['ca_file', 'cert_file', 'key_file'] as const;

/** A section that says how the gateway proves who it is, and whom it believes. */
interface ClientTlsSection {
  readonly path: Path;
  readonly tls: Readonly<Partial<Record<(typeof CLIENT_FILES)[number], string | undefined>>> | undefined;
}

/**
 * Certificates and keys for connections that the gateway opens: when they change, the configuration is taken into use
 * again.
 */
export function namedFiles(config: Config): readonly NamedFile[] {
  return clientTls(config).flatMap(({ path, tls }) =>
    CLIENT_FILES.flatMap((name) => {
      const file = tls?.[name];
      return file === undefined ? [] : [{ path: [...path, name], file }];
    }),
  );
}

/** Of the connections that are in use. */
function clientTls({
  backend,
  backends,
  authorization,
  usage_events: events,
  rate_limit: { external },
  redis,
  cache_redis: cache,
  identity: { jwt },
}: Config): readonly ClientTlsSection[] {
  const { http, grpc } = external;
  return [
    { path: ['backend', 'transport', 'tls'], tls: backend.transport.tls },
    ...Object.entries(backends).map(([name, { transport }]) => ({
      path: ['backends', name, 'transport', 'tls'],
      tls: transport.tls,
    })),
    { path: ['redis', 'tls'], tls: enabledOf(redis?.tls) },
    { path: ['identity', 'jwt', 'jwks', 'tls'], tls: jwt?.jwks.tls },
    ...(authorization.enabled
      ? [
          { path: ['authorization', 'http', 'tls'], tls: authorization.http?.tls },
          { path: ['authorization', 'grpc', 'tls'], tls: enabledOf(authorization.grpc?.tls) },
        ]
      : []),
    ...(events.enabled ? [{ path: ['usage_events', 'http', 'tls'], tls: events.http?.tls }] : []),
    ...(external.enabled
      ? [
          { path: ['cache_redis', 'tls'], tls: enabledOf(cache?.tls) },
          { path: ['rate_limit', 'external', 'http', 'tls'], tls: http?.tls },
          { path: ['rate_limit', 'external', 'grpc', 'tls'], tls: enabledOf(grpc?.tls) },
        ]
      : []),
  ];
}

function enabledOf<Tls extends { readonly enabled: boolean }>(tls: Tls | undefined): Tls | undefined {
  return tls?.enabled === true ? tls : undefined;
}

export interface FileReading {
  readonly readFile: (path: string) => string;
  /**
   * Left out: looked at. Certificates that are served already need not fit for the moment in which they are replaced.
   */
  readonly serverToo?: boolean | undefined;
}

export interface FileProblem {
  readonly problem: ConfigProblem;
  /** It is not known what the file says. */
  readonly unreadable: boolean;
}

/** Whatever is wrong with the files that a configuration names, all at once. */
export function fileProblems(
  { config, originOf }: Pick<ConfigInUse, 'config' | 'originOf'>,
  { readFile, serverToo = true }: FileReading,
): readonly FileProblem[] {
  const sections = [
    ...clientSections(config),
    ...(serverToo ? serverSections(config) : []),
    keysForTokens(config),
  ];
  const descriptors = failureOf(() => void readDescriptorFiles(config.service?.rls));
  const ofDescriptors =
    descriptors === undefined ? [] : [{ problem: descriptors.problem(originOf), unreadable: false }];
  const ofSections = sections.flatMap(({ files, check }): readonly FileProblem[] => {
    const read = files.map((file) => readPem(file, readFile));
    const unreadable = read.filter((found) => found instanceof SettingError);
    if (unreadable.length > 0) {
      return unreadable.map((failure) => ({ problem: failure.problem(originOf), unreadable: true }));
    }
    const unusable = failureOf(() => check(read.filter((found) => 'text' in found)));
    return unusable === undefined ? [] : [{ problem: unusable.problem(originOf), unreadable: false }];
  });
  const folder = failureOf(() => usableFolder(config.state_dir));
  const ofFolder = folder === undefined ? [] : [{ problem: folder.problem(originOf), unreadable: true }];
  return [...ofSections, ...ofDescriptors, ...identityFileProblems(config, originOf, readFile), ...ofFolder];
}

/** Of API keys, and of the plans that they name. */
function identityFileProblems(
  config: Config,
  originOf: ConfigInUse['originOf'],
  readFile: FileReading['readFile'],
): readonly FileProblem[] {
  return keyFileProblems(config, readFile).map((failure) => ({
    problem: failure.problem(originOf),
    unreadable: false,
  }));
}

/** Files that belong together. */
interface Section {
  readonly files: readonly NamedFile[];
  /** Throws a `SettingError`. */
  readonly check: (files: readonly PemFile[]) => void;
}

function clientSections(config: Config): readonly Section[] {
  return clientTls(config).map(({ path, tls }) => ({
    files: CLIENT_FILES.flatMap((name) => named([...path, name], tls?.[name])),
    check: (files) => {
      const [ca, cert, key] = CLIENT_FILES.map((name) => files.find((file) => file.path.at(-1) === name));
      if (ca !== undefined) certificatesIn(ca);
      if (cert !== undefined && key !== undefined) certificateOfPair(cert, key);
    },
  }));
}

function serverSections({ server, service }: Config): readonly Section[] {
  return [...certificates(['server', 'tls'], server.tls), ...certificates(['service', 'tls'], service?.tls)];
}

function keysForTokens({ identity: { jwt } }: Config): Section {
  return {
    files: named(JWKS_FILE, jwt?.jwks.file),
    check: (files) => {
      for (const file of files) readKeyFile(file, publicKeysIn);
    },
  };
}

function certificates(section: Path, tls: Config['server']['tls'] | undefined): readonly Section[] {
  if (tls?.enabled !== true) return [];
  return [
    {
      files: tlsFiles(tls).flatMap(({ file, path }) => named([...section, file], path)),
      check: (files) =>
        void keyMaterial(
          tls,
          Object.fromEntries(files.map(({ path, text }) => [String(path.at(-1)), text])),
          section,
        ),
    },
  ];
}

function named(path: Path, file: string | undefined): readonly NamedFile[] {
  return file === undefined ? [] : [{ path, file }];
}

function readPem({ path, file }: NamedFile, readFile: FileReading['readFile']): PemFile | SettingError {
  try {
    return { path, file, text: readFile(file) };
  } catch (failure) {
    return unreadableFile(path, file, failure);
  }
}

function failureOf(act: () => void): SettingError | undefined {
  try {
    act();
    return undefined;
  } catch (failure) {
    if (failure instanceof SettingError) return failure;
    throw failure;
  }
}

export interface FileWatch {
  /** Looks at these files from now on. */
  watch(files: readonly string[]): void;
  /** The files are about to be read as they are now: only a later change calls back. */
  acted(): void;
  close(): void;
}

const POLL_MS = 250;

/**
 * Calls back when one of the files has changed and then stood still for a moment. It looks at the files themselves,
 * four times a second: that sees files that are written in place, replaced by renaming, or reached through links that
 * are turned (as Kubernetes does), on every file system. Notifications of the system miss some of these.
 */
export function watchFiles(changed: () => void): FileWatch {
  let files = new Map<string, FileLook>();

  const look = (): void => {
    let settled = false;
    for (const [file, { acted, seen }] of files) {
      const now = signature(file);
      // Still being written if it differs from the last look.
      const isNew = now === seen && now !== acted;
      files.set(file, { acted: isNew ? now : acted, seen: now });
      settled ||= isNew;
    }
    if (settled) changed();
  };
  const timer = setInterval(look, POLL_MS);
  timer.unref();

  return {
    watch(paths) {
      const before = files;
      files = new Map(paths.map((file) => [file, before.get(file) ?? firstLook(file)]));
    },
    acted() {
      files = new Map([...files.keys()].map((file) => [file, firstLook(file)]));
    },
    close: () => clearInterval(timer),
  };
}

interface FileLook {
  /** What the file was when it was last acted on. */
  readonly acted: string;
  readonly seen: string;
}

function firstLook(file: string): FileLook {
  const now = signature(file);
  return { acted: now, seen: now };
}

/** Differs whenever the content may. A file that is gone for a moment is a change too; reading it will tell. */
function signature(file: string): string {
  try {
    // Synchronous: a few microseconds, and no two looks can overtake each other.
    const { dev, ino, size, mtimeNs } = statSync(file, { bigint: true });
    return `${dev} ${ino} ${size} ${mtimeNs}`;
  } catch (failure) {
    return failure instanceof Error ? failure.message : 'unknown';
  }
}
