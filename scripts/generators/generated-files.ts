import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { referencePage } from './gateway-configuration-page.ts';
import { openApiFile, protoFile } from '#gateway/external/wire/api-files.js';
import { alertRules } from './alerts.ts';
import { benchmarkPlots } from './benchmark-plots.ts';
import { errorsPage } from './errors-page.ts';
import { gatewayAdminPage } from './gateway-admin-page.ts';
import { gatewayMetricsPage } from './gateway-metrics-page.ts';
import { grafanaDashboard } from './grafana-dashboard.ts';
import { metricsPage } from './metrics-page.ts';
import { redisScriptModule } from './redis-script.ts';

interface GeneratedFile {
  /** Relative to the repository. */
  readonly path: string;
  readonly content: (root: string) => string;
}

/** The one list of committed files that are made from other files, but for plots: results of benchmarks list those. */
const GENERATED_FILES: readonly GeneratedFile[] = [
  { path: 'docs/errors.md', content: errorsPage },
  { path: 'docs/metrics.md', content: metricsPage },
  { path: 'docs/gateway-configuration.md', content: referencePage },
  { path: 'docs/gateway-admin.md', content: gatewayAdminPage },
  { path: 'docs/gateway-metrics.md', content: gatewayMetricsPage },
  { path: 'deploy/prometheus/alerts.yml', content: alertRules },
  { path: 'deploy/grafana/dashboards/spillgate.json', content: grafanaDashboard },
  { path: 'packages/limiter/src/stores/redis/script.generated.ts', content: redisScriptModule },
  { path: 'packages/gateway/api/ratelimit.proto', content: protoFile },
  { path: 'packages/gateway/api/limits-service.openapi.json', content: openApiFile },
  // npm packs only what lies inside the package, and the license must travel with the code.
  { path: 'packages/limiter/LICENSE', content: (root) => readFileSync(join(root, 'LICENSE'), 'utf8') },
  { path: 'packages/gateway/LICENSE', content: (root) => readFileSync(join(root, 'LICENSE'), 'utf8') },
];

/** The paths of the files that are missing or differ from what would be generated. */
export function staleFiles(root: string): string[] {
  return wantedFiles(root)
    .filter(({ path, content }) => readIfPresent(join(root, path)) !== content)
    .map(({ path }) => path);
}

export function writeStaleFiles(root: string): string[] {
  const stale = new Set(staleFiles(root));
  for (const { path, content } of wantedFiles(root).filter((file) => stale.has(file.path))) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
  }
  return [...stale];
}

function wantedFiles(root: string): readonly { readonly path: string; readonly content: string }[] {
  const files = GENERATED_FILES.map(({ path, content }) => ({ path, content: content(root) }));
  return [...files, ...benchmarkPlots(root)];
}

function readIfPresent(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}
