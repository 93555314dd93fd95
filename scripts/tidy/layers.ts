// These rules live here and not in the linter: `no-restricted-imports` sees only the specifier as written, and
// oxlint silently drops a pattern it cannot compile (any look-ahead) instead of failing.
import { type Import, importsOf } from './imports.ts';
import type { Check, RepositoryFile } from './tree.ts';

/** Both patterns are matched against paths below the source folder of the package. */
interface Layer {
  readonly files: RegExp;
  readonly mayImport: RegExp;
  readonly why: string;
}

const LIBRARY_SOURCE = 'packages/limiter/src/';
const GATEWAY_SOURCE = 'packages/gateway/src/';
const WORKSPACE = /^(?:packages\/[^/]+|bench|examples)\//;
/** Policies, keys, decisions, errors…: every top file that is not listed as something higher. */
const DOMAIN = '(?!(?:limiter|decision-log|limiter-from-env|create-limiter|index|internal)\\.)[^/]+\\.ts$';
const STORE_PORT = 'stores/store\\.ts$';

/** The first layer that matches a file is the one it belongs to. */
const LAYERS: readonly Layer[] = [
  {
    files: /^algorithms\//,
    mayImport: /^(?:algorithms\/|(?:duration|errors)\.ts$)/,
    why: 'an algorithm knows other algorithms, durations and errors only',
  },
  {
    // They reach nothing but each other, so that algorithms may know them.
    files: /^(?:duration|errors)\.ts$/,
    mayImport: /^(?:duration|errors)\.ts$/,
    why: 'algorithms know durations and errors, which must not know them',
  },
  {
    files: new RegExp(`^${DOMAIN}`),
    mayImport: new RegExp(`^(?:algorithms/|${STORE_PORT}|${DOMAIN})`),
    why: 'the domain knows the algorithms, the store port and itself',
  },
  {
    files: /^stores\//,
    mayImport: new RegExp(`^(?:algorithms/|stores/|${DOMAIN})`),
    why: 'a store knows the algorithms and the domain, never what is built on it',
  },
  {
    files: /^limiter\.ts$/,
    mayImport: new RegExp(`^(?:${STORE_PORT}|algorithms/|${DOMAIN})`),
    why: 'the limiter knows the store port, never a concrete store',
  },
  {
    files: /^decision-log\.ts$/,
    mayImport: new RegExp(`^(?:limiter\\.ts$|${DOMAIN})`),
    why: 'a listener knows the limiter and the domain',
  },
  {
    files: /^metrics\//,
    mayImport: new RegExp(`^(?:metrics/|limiter\\.ts$|${STORE_PORT}|${DOMAIN})`),
    why: 'metrics are listeners: they know the limiter and the domain',
  },
  {
    files: /^fleet\//,
    mayImport: new RegExp(`^(?:fleet/|stores/|limiter\\.ts$|${DOMAIN})`),
    why: 'what a fleet shares knows the limiter, its stores and the domain',
  },
  {
    files: /^http\//,
    mayImport: new RegExp(`^(?:http/|${DOMAIN})`),
    why: 'what all adapters share knows the domain only',
  },
  {
    files: /^client\//,
    mayImport: new RegExp(`^(?:client/|http/delay\\.ts$|${DOMAIN})`),
    why: 'the client reads what servers say and knows no limiter',
  },
  {
    files: /^adapters\//,
    mayImport: new RegExp(`^(?:adapters/|http/|limiter\\.ts$|${DOMAIN})`),
    why: 'an adapter only translates between a framework and the limiter',
  },
  {
    // The composition roots, the public test kit and simulations put everything together.
    files: /^(?:(?:index|internal|create-limiter|limiter-from-env)\.ts$|testing\/|simulate\/)/,
    mayImport: /^/,
    why: 'everything may be composed here',
  },
];

/** What each part of the gateway may know of the others; `cli` and the two top files put them together. */
const GATEWAY_LAYERS: readonly Layer[] = [
  {
    files: /^http-client\//,
    mayImport: /^http-client\//,
    why: 'the HTTP client knows nothing of the gateway, and needs no package',
  },
  {
    files: /^config\//,
    mayImport: /^config\//,
    why: 'the configuration knows nothing of what is configured',
  },
  {
    files: /^api\//,
    mayImport: /^(?:config|api)\//,
    why: 'what both APIs are made of knows neither of them',
  },
  {
    files: /^telemetry\//,
    mayImport: /^(?:config|telemetry)\//,
    why: 'telemetry listens; it knows the configuration only',
  },
  {
    files: /^external\//,
    mayImport: /^(?:config|telemetry|external|http-client)\//,
    why: 'the external service is asked by the rules, and knows nothing of them',
  },
  {
    files: /^fleet\//,
    mayImport: /^(?:config|telemetry|external|fleet)\//,
    why: 'what instances share knows neither requests nor who operates the gateway',
  },
  {
    files: /^cost\//,
    mayImport: /^(?:config|cost)\//,
    why: 'what a request costs is measured beside it; rules and the proxy ask',
  },
  {
    // Tokens are read as strictly as answers of the external service.
    files: /^identity\//,
    mayImport: /^(?:(?:config|telemetry|identity|http-client)\/|external\/strict-json\.ts$)/,
    why: 'who is asking is found out before any rule is asked',
  },
  {
    files: /^rules\//,
    mayImport: /^(?:config|telemetry|external|identity|cost|rules)\//,
    why: 'rules decide about facts; how a request came and where it goes is not theirs',
  },
  {
    files: /^usage\//,
    mayImport: /^(?:config|telemetry|usage|http-client)\//,
    why: 'usage events tell of finished requests, and know nothing of how they went',
  },
  {
    files: /^authorization\//,
    mayImport: /^(?:config|telemetry|external|rules|authorization|http-client|service\/wire)\//,
    why: 'the authorization service is asked about facts, before the rules',
  },
  {
    files: /^proxy\//,
    mayImport: /^(?:config|telemetry|identity|cost|rules|authorization|proxy|http-client)\//,
    why: 'the proxy forwards what the rules admit',
  },
  {
    files: /^simulate\//,
    mayImport: /^(?:config|identity|rules|simulate)\/|^proxy\/request\/request-target\.ts$/,
    why: 'a simulation asks the rules about logged requests; it serves nothing',
  },
  {
    files: /^admin\//,
    mayImport: /^(?:config|api|telemetry|fleet|rules|admin)\//,
    why: 'the admin server shows and changes states; it forwards nothing',
  },
  {
    // It reads requests and certificates as the proxy does, and forwards nothing.
    files: /^service\//,
    mayImport:
      /^(?:(?:config|api|telemetry|external|identity|rules|service)\/|proxy\/(?:request\/|tls\/|server\/detect-http2\.ts$|(?:exchange|gateway-errors)\.ts$))/,
    why: 'the service answers others about limits; it forwards nothing and operates nothing',
  },
  {
    files: /^runtime\//,
    mayImport: /^(?!cli\/|main\.ts$)/,
    why: 'the runtime puts the parts together, and knows no command line',
  },
  {
    files: /^(?:cli\/|(?:main|gateway|index|version)\.ts$)/,
    mayImport: /^(?!main\.ts$)/,
    why: 'everything may be composed here, and nobody imports the program',
  },
];

/** Everything else runs on edge runtimes, which have no `node:` modules. */
const MAY_USE_NODE = /^(?:testing\/|stores\/redis\/|fleet\/redis-|adapters\/(?!fetch|hono))/;

export const libraryLayersHold: Check = (files) =>
  sources(files)
    .filter((file) => file.path.startsWith(LIBRARY_SOURCE))
    .flatMap((file) => {
      const name = file.path.slice(LIBRARY_SOURCE.length);
      const layer = LAYERS.find((candidate) => candidate.files.test(name));
      if (layer === undefined) return [`${file.path} belongs to no layer of scripts/tidy/layers.ts`];

      return importsOf(file).flatMap((imported) => {
        const problem = libraryProblem(name, layer, imported);
        return problem === undefined ? [] : [report(file, imported, problem)];
      });
    });

/** Layers, and the library by its public entry points only: a path into it does not even resolve there. */
export const gatewayLayersHold: Check = (files) =>
  sources(files)
    .filter((file) => file.path.startsWith(GATEWAY_SOURCE))
    .flatMap((file) => {
      const name = file.path.slice(GATEWAY_SOURCE.length);
      const layer = GATEWAY_LAYERS.find((candidate) => candidate.files.test(name));
      if (layer === undefined) return [`${file.path} belongs to no layer of scripts/tidy/layers.ts`];

      return importsOf(file).flatMap((imported) => {
        const problem = gatewayProblem(name, layer, imported);
        return problem === undefined ? [] : [report(file, imported, problem)];
      });
    });

/**
 * A package, an example or a benchmark reaches another one only by its public entry points. Tests share what is in
 * `test/` at the root.
 */
export const workspacesStayApart: Check = (files) =>
  sources(files).flatMap((file) => {
    const workspace = WORKSPACE.exec(file.path)?.[0];
    if (workspace === undefined) return [];
    const inside = file.path.startsWith(`${workspace}test/`) ? [workspace, 'test/'] : [workspace];
    return importsOf(file)
      .filter(({ specifier }) => specifier.startsWith('.'))
      .filter(({ target }) => !inside.some((folder) => target.startsWith(folder)))
      .map((imported) => report(file, imported, `leaves ${workspace}; use the package's public entry point`));
  });

/** Old output hides from the compiler that a source is gone. */
export const builtModulesHaveSources: Check = (files) => {
  const paths = new Set(files.map(({ path }) => path));
  return files
    .filter(({ path }) => path.endsWith('.ts'))
    .flatMap((file) =>
      importsOf(file)
        .filter(({ specifier }) => specifier.startsWith('#') && !paths.has(sourceOf(specifier)))
        .map((imported) => report(file, imported, `there is no ${sourceOf(imported.specifier)}`)),
    );
};

/** `#limiter/a.js` is what becomes of `packages/limiter/src/a.ts`. */
function sourceOf(specifier: string): string {
  return specifier.replace(/^#(\w+)\//, 'packages/$1/src/').replace(/\.js$/, '.ts');
}

function libraryProblem(name: string, layer: Layer, { specifier, target }: Import): string | undefined {
  if (specifier.startsWith('node:')) {
    return MAY_USE_NODE.test(name) ? undefined : 'does not exist on edge runtimes';
  }
  if (!specifier.startsWith('.')) {
    return /^(?:spillgate|#)/.test(specifier) ? 'must be a relative import inside the library' : undefined;
  }
  if (!target.startsWith(LIBRARY_SOURCE)) return 'leaves the library';
  return layer.mayImport.test(target.slice(LIBRARY_SOURCE.length)) ? undefined : layer.why;
}

function gatewayProblem(name: string, layer: Layer, { specifier, target }: Import): string | undefined {
  if (specifier === 'node:process' && name !== 'main.ts') return 'only main.ts touches the process';
  if (specifier.startsWith('#')) return 'only scripts and tests reach into a package';
  if (name.startsWith('http-client/') && !/^(?:\.|node:)/.test(specifier)) return layer.why;
  if (!target.startsWith(GATEWAY_SOURCE)) return undefined;
  return layer.mayImport.test(target.slice(GATEWAY_SOURCE.length)) ? undefined : layer.why;
}

/** Tests may reach everywhere: they are not shipped. */
function sources(files: readonly RepositoryFile[]): RepositoryFile[] {
  return files.filter(({ path }) => path.endsWith('.ts') && !path.endsWith('.test.ts'));
}

function report(file: RepositoryFile, imported: Import, problem: string): string {
  return `${file.path}:${imported.line} imports ${imported.specifier}: ${problem}`;
}
