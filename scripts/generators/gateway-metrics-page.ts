import {
  CALL_BUCKETS_SECONDS,
  DURATION_BUCKETS_SECONDS,
  LABELS,
  MAX_LABELS,
  METRICS,
} from '#gateway/telemetry/metric-table.js';

/** The reference page of the gateway's metrics, from the table that it registers them from. */
export function gatewayMetricsPage(): string {
  return [INTRODUCTION, metricTable(), labelTable(), alerts()].join('\n');
}

const INTRODUCTION = `<!-- Generated from packages/gateway/src/telemetry/metric-table.ts by \`npm run generate\`. Edit that file, or scripts/generators/gateway-metrics-page.ts for the text. -->

# Metrics of the gateway

The admin server shows all metrics at \`/metrics\`, in the text format of Prometheus: those of this page, those of the limiter
([metrics.md](metrics.md), with the label \`limiter="default"\`), and those of the process that \`prom-client\` knows (\`process_*\`, \`nodejs_*\`).

Counting a request takes well under a microsecond: it adds to plain numbers, which become metrics only when somebody asks for them.
`;

function metricTable(): string {
  const rows = Object.values(METRICS).map(({ name, kind, labels, help, workers }) => {
    const names = labels.map((label) => `\`${label}\``).join(', ');
    return `| \`${name}\` | ${kind} | ${names} | ${workers} | ${help} |`;
  });
  return `## The metrics

| name | kind | labels | of several workers | what it tells |
|---|---|---|---|---|
${rows.join('\n')}

Where the gateway has several workers, each series is the sum, the least or the largest of theirs, as the table says. The buckets of the
histograms are, in seconds: ${DURATION_BUCKETS_SECONDS.join(', ')}; of calls to the limits service ${CALL_BUCKETS_SECONDS.join(', ')}.
`;
}

function labelTable(): string {
  const rows = Object.entries(LABELS).map(([label, values]) => `| \`${label}\` | ${values} |`);
  return `## The labels

| label | values |
|---|---|
${rows.join('\n')}

No key, path, method or host of a request ever becomes a label. The first ${MAX_LABELS.rule} names of rules, ${MAX_LABELS.reason} reasons and ${MAX_LABELS.upstream} upstreams have labels of their
own; all that come later share \`other\`, so that no number of reloads fills the memory of whoever keeps the metrics.
`;
}

function alerts(): string {
  const { requests, requestDuration, upstreamUp, lastReloadSuccessful, droppedLogLines, ready } = METRICS;
  return `## What to alert on

\`\`\`text
# More than 1 % of the requests end with an error of the gateway itself: the backend does not answer, or a bound was met.
sum(rate(${requests.name}{outcome="failed"}[5m])) / sum(rate(${requests.name}[5m])) > 0.01

# A server behind the gateway gets no requests; use it with "for: 1m".
min by (upstream) (${upstreamUp.name}) == 0

# The file on disk is not what runs: the last reload was refused, and the log says why.
min(${lastReloadSuccessful.name}) == 0

# An instance has not become ready, or does not finish draining; use it with "for: 5m".
min by (instance) (${ready.name}) == 0

# Forwarded requests become slow.
histogram_quantile(0.99, sum by (le) (rate(${requestDuration.name}_bucket{outcome="forwarded"}[5m]))) > 1

# Nobody takes the log.
increase(${droppedLogLines.name}[5m]) > 0
\`\`\`

How much each rule refuses is no failure, but worth a graph:

\`\`\`text
sum by (rule) (rate(${requests.name}{outcome="refused"}[5m])) / sum by (rule) (rate(${requests.name}[5m]))
\`\`\`
`;
}
