import {
  DURATION_BUCKETS_SECONDS,
  LABELS,
  MAX_LABELS,
  METRICS,
  openTelemetryName,
} from '#limiter/metrics/metric-table.js';
import { alertSection, LIMITER_ALERTS } from './alerts.ts';

/** The reference page of metrics, from the table that the library registers them from. */
export function metricsPage(): string {
  return [INTRODUCTION, metricTable(), labelTable(), BOUNDS, alerts()].join('\n');
}

const INTRODUCTION = `<!-- Generated from packages/limiter/src/metrics/metric-table.ts by \`npm run generate\`. Edit that file, or scripts/generators/metrics-page.ts for the text. -->

# Metrics

A limiter keeps no metrics itself: it emits [events](events.md), and \`limiter.statistics()\` counts calls to Redis and leased tokens. Two entry
points listen to them and record metrics with the metrics package you already use. Both record the same metrics with the same labels. A key never becomes a label.

## Prometheus

With \`prom-client\`:

\`\`\`ts
import client from 'prom-client';
import { createLimiter } from 'spillgate';
import { collectMetrics } from 'spillgate/prometheus';

const limiter = createLimiter();
collectMetrics(limiter, { client });
\`\`\`

The metrics are now in \`client.register\`, next to your own. Pass \`registry\` to use another registry. Pass \`name\` to tell
several limiters apart: it becomes the label \`limiter\`. Limiters with the same name are counted together.

\`\`\`ts runnable
import client from 'prom-client';
import { createLimiter, tokenBucket } from 'spillgate';
import { collectMetrics } from 'spillgate/prometheus';

const limiter = createLimiter();
const registry = new client.Registry();
const stop = collectMetrics(limiter, { client, registry, name: 'edge' });

const api = tokenBucket({ name: 'api', average: 2, burst: 2, period: '1h' });
for (let request = 1; request <= 5; request += 1) await limiter.check(api.for('ann'));
stop();
console.log(await registry.getSingleMetricAsString('${METRICS.decisions.name}'));
\`\`\`

\`\`\`text output
# HELP ${METRICS.decisions.name} ${METRICS.decisions.help}
# TYPE ${METRICS.decisions.name} ${METRICS.decisions.kind}
${METRICS.decisions.name}{limiter="edge",policy="api",outcome="allowed",source="store"} 2
${METRICS.decisions.name}{limiter="edge",policy="api",outcome="denied",source="store"} 3
\`\`\`

\`collectMetrics()\` returns a function that stops collecting. What was counted stays in the registry.

## OpenTelemetry

With \`@opentelemetry/api\`, after you have started the SDK (a meter created earlier never records anything):

\`\`\`ts
import { metrics } from '@opentelemetry/api';
import { createLimiter } from 'spillgate';
import { collectMetrics } from 'spillgate/opentelemetry';

const limiter = createLimiter();
collectMetrics(limiter, { meter: metrics.getMeter('spillgate') });
\`\`\`

A package that does not know whether its users have OpenTelemetry can ask for the meter:

\`\`\`ts
import { createLimiter } from 'spillgate';
import { collectMetrics, globalMeter } from 'spillgate/opentelemetry';

const limiter = createLimiter();
const meter = await globalMeter();
if (meter !== undefined) collectMetrics(limiter, { meter });
\`\`\`

The JavaScript SDK keeps showing the last value of a series that is no longer reported. So a server that has left the store is reported as 1
once more, and does not look down forever.
`;

function metricTable(): string {
  const rows = Object.values(METRICS).map((metric) => {
    const labels = metric.labels.map((label) => `\`${label}\``).join(', ');
    return `| \`${metric.name}\` | \`${openTelemetryName(metric)}\` | ${metric.kind} | ${labels} | ${metric.help} |`;
  });
  return `## The metrics

| Prometheus | OpenTelemetry | kind | labels | meaning |
|---|---|---|---|---|
${rows.join('\n')}

Decisions made without the store have the source \`fallback\` or \`failurePolicy\`. A decision about several limits counts once. \`peek\` is not
counted, but its errors are. Errors are exported as zero from the start, and denials from the first decision of their policy, because
\`rate()\` misses the first value of a new series.

The buckets of the histogram are, in seconds: ${DURATION_BUCKETS_SECONDS.map(plain).join(', ')}.
`;
}

function labelTable(): string {
  const rows = Object.entries(LABELS).map(([label, values]) => `| \`${label}\` | ${values} |`);
  return `| label | values |
|---|---|
${rows.join('\n')}
`;
}

const BOUNDS = `The number of series is bounded, whatever a program does. In one registry or meter the first ${MAX_LABELS.policy} policies, ${MAX_LABELS.node} servers and ${MAX_LABELS.limiter}
limiters have labels of their own; all later ones share the label \`other\`.

Metrics are event listeners: a limiter without them does not even measure time.
`;

function alerts(): string {
  const { decisions } = METRICS;
  return `## What to alert on

[deploy/prometheus/alerts.yml](../deploy/prometheus/alerts.yml) has these conditions as rules for Prometheus.

${alertSection(LIMITER_ALERTS)}

Denials are not failures; they are what a limiter is for. Watch their share, and alert on it only where a policy should
never deny:

\`\`\`text
sum by (limiter, policy) (rate(${decisions.name}{outcome="denied"}[5m]))
  / sum by (limiter, policy) (rate(${decisions.name}[5m]))
\`\`\`
`;
}

/** Without an exponent. */
function plain(seconds: number): string {
  return seconds.toFixed(6).replace(/\.?0+$/, '');
}
