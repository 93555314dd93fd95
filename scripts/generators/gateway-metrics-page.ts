import {
  CALL_BUCKETS_SECONDS,
  DURATION_BUCKETS_SECONDS,
  LABELS,
  MAX_LABELS,
  type GatewayMetric,
} from '#gateway/telemetry/metric.js';
import { METRICS } from '#gateway/telemetry/metric-table.js';
import { alertSection, GATEWAY_ALERTS } from './alerts.ts';

/** The reference page of the gateway's metrics, from the table that it registers them from. */
export function gatewayMetricsPage(): string {
  return [INTRODUCTION, metricTable(), labelTable(), alerts()].join('\n');
}

const INTRODUCTION = `<!-- Generated from packages/gateway/src/telemetry/metric-table.ts by \`npm run generate\`. Edit that file, or scripts/generators/gateway-metrics-page.ts for the text. -->

# Metrics of the gateway

The admin server exports all metrics at \`/metrics\` in the Prometheus text format: those on this page, those of the limiter
([metrics.md](metrics.md), with the label \`limiter="default"\`), and the process metrics of \`prom-client\` (\`process_*\`, \`nodejs_*\`).

Counting a request takes well under a microsecond: it adds to plain numbers, which become metrics only when they are scraped.
`;

function metricTable(): string {
  const rows = Object.values<GatewayMetric>(METRICS).map(({ name, kind, labels, help, workers = 'sum' }) => {
    const names = labels.map((label) => `\`${label}\``).join(', ');
    return `| \`${name}\` | ${kind} | ${names} | ${workers} | ${help} |`;
  });
  return `## The metrics

| name | kind | labels | across workers | meaning |
|---|---|---|---|---|
${rows.join('\n')}

With several workers, each series is the sum, the minimum or the maximum of theirs, as the table says. The buckets of the
histograms are, in seconds: ${DURATION_BUCKETS_SECONDS.join(', ')}; of calls to the limits service ${CALL_BUCKETS_SECONDS.join(', ')}.
`;
}

function labelTable(): string {
  const rows = Object.entries(LABELS).map(([label, values]) => `| \`${label}\` | ${values} |`);
  return `## The labels

| label | values |
|---|---|
${rows.join('\n')}

A request's key, path, method or host never becomes a label. The first ${MAX_LABELS.rule} names of rules, ${MAX_LABELS.reason} reasons and ${MAX_LABELS.upstream} upstreams have labels of their
own; all later ones share \`other\`, so that the number of series stays bounded however often the configuration changes.
`;
}

function alerts(): string {
  const { requests } = METRICS;
  return `## What to alert on

[deploy/prometheus/alerts.yml](../deploy/prometheus/alerts.yml) has these conditions as rules for Prometheus.

${alertSection(GATEWAY_ALERTS)}

What each rule refuses is not a failure, but worth a graph:

\`\`\`text
sum by (rule) (rate(${requests.name}{outcome="refused"}[5m])) / sum by (rule) (rate(${requests.name}[5m]))
\`\`\`
`;
}
