import { METRICS as LIMITER } from '#limiter/metrics/metric-table.js';
import { METRICS as GATEWAY } from '#gateway/telemetry/metric-table.js';

interface Alert {
  readonly name: string;
  readonly expr: string;
  /** For how long it has to hold. */
  readonly for: string;
  readonly severity: 'critical' | 'warning';
  /** What is wrong, as a template of Prometheus. */
  readonly summary: string;
  /** Why it matters or what to do, in one or two sentences. */
  readonly description: string;
}

/** The one list of alerts: the rules for Prometheus and the last section of both metric pages come from it. */
export const GATEWAY_ALERTS: readonly Alert[] = [
  {
    name: 'SpillgateFailedRequests',
    expr: `sum by (job) (rate(${GATEWAY.requests.name}{outcome="failed"}[5m])) / sum by (job) (rate(${GATEWAY.requests.name}[5m])) > 0.01`,
    for: '5m',
    severity: 'critical',
    summary: '{{ $value | humanizePercentage }} of the requests end with an error of the gateway',
    description:
      'More than 1 % of the requests end with an error of the gateway itself: the backend does not answer, or a limit of the gateway was reached.',
  },
  {
    name: 'SpillgateUpstreamDown',
    expr: `min by (job, upstream) (${GATEWAY.upstreamUp.name}) == 0`,
    for: '1m',
    severity: 'critical',
    summary: '{{ $labels.upstream }} gets no requests',
    description: 'An upstream is unhealthy and gets no requests. The log says why its health checks fail.',
  },
  {
    name: 'SpillgateReloadRefused',
    expr: `min by (job, instance) (${GATEWAY.lastReloadSuccessful.name}) == 0`,
    for: '1m',
    severity: 'warning',
    summary: '{{ $labels.instance }} runs an older configuration than the file',
    description:
      'The file on disk is not what runs: the last reload was refused, and the log says why and where.',
  },
  {
    name: 'SpillgateNotReady',
    expr: `min by (job, instance) (${GATEWAY.ready.name}) == 0`,
    for: '5m',
    severity: 'warning',
    summary: '{{ $labels.instance }} has not been ready for five minutes',
    description: 'An instance does not become ready, or does not finish draining.',
  },
  {
    name: 'SpillgateSlowRequests',
    expr: `histogram_quantile(0.99, sum by (job, le) (rate(${GATEWAY.requestDuration.name}_bucket{outcome="forwarded"}[5m]))) > 1`,
    for: '10m',
    severity: 'warning',
    summary: '1 % of the forwarded requests take longer than {{ $value | humanizeDuration }}',
    description: 'Forwarded requests are slow. Compare with the time until the backend sends its headers.',
  },
  {
    name: 'SpillgateLogLinesDropped',
    expr: `sum by (job, instance) (increase(${GATEWAY.droppedLogLines.name}[5m])) > 0`,
    for: '0m',
    severity: 'warning',
    summary: '{{ $labels.instance }} drops log lines',
    description: 'Nothing reads the log fast enough.',
  },
];

export const LIMITER_ALERTS: readonly Alert[] = [
  {
    name: 'SpillgateStoreDoesNotDecide',
    expr: `sum by (job, limiter) (rate(${LIMITER.decisions.name}{source=~"fallback|failurePolicy"}[5m])) / sum by (job, limiter) (rate(${LIMITER.decisions.name}[5m])) > 0.01`,
    for: '1m',
    severity: 'critical',
    summary: '{{ $value | humanizePercentage }} of the decisions are made without Redis',
    description:
      'Redis does not decide: more than 1 % of the decisions came from the fallback or the failure policy.',
  },
  {
    name: 'SpillgateStoreServerDown',
    expr: `min by (job, limiter, node) (${LIMITER.nodeUp.name}) == 0`,
    for: '1m',
    severity: 'critical',
    summary: '{{ $labels.node }} is down',
    description: 'A server of the store is down. It is named even if the others still decide.',
  },
  {
    name: 'SpillgateStoreServerUnstable',
    expr: `sum by (job, limiter, node) (increase(${LIMITER.nodeTransitions.name}{to="down"}[30m])) > 3`,
    for: '0m',
    severity: 'warning',
    summary: '{{ $labels.node }} went down {{ $value | humanize }} times in half an hour',
    description: 'A server of the store comes and goes.',
  },
  {
    name: 'SpillgateStoreMisconfigured',
    expr: `sum by (job, limiter, code) (increase(${LIMITER.storeErrors.name}{class=~"configuration|state"}[5m])) > 0`,
    for: '0m',
    severity: 'critical',
    summary: 'The store fails with {{ $labels.code }}',
    description:
      'Someone has to act: a wrong password, a missing permission, a foreign value under one of our keys. Waiting does not help.',
  },
  {
    name: 'SpillgateSlowDecisions',
    expr: `histogram_quantile(0.99, sum by (job, limiter, le) (rate(${LIMITER.decisionDuration.name}_bucket{source="store"}[5m]))) > 0.025`,
    for: '10m',
    severity: 'warning',
    summary: '1 % of the decisions take longer than {{ $value | humanizeDuration }}',
    description: 'Decisions become slow: half of the default deadline of 50 ms.',
  },
  {
    name: 'SpillgateMemoryStoreFull',
    expr: `sum by (job, limiter, policy) (rate(${LIMITER.decisions.name}{source="overflow"}[5m])) > 0`,
    for: '5m',
    severity: 'warning',
    summary: 'New keys of the policy {{ $labels.policy }} share one state',
    description:
      'The memory store is full and new keys share a state: raise maxKeys, or find out who makes up keys.',
  },
];

const RULES_HEADER = `# Alerts of Spillgate for Prometheus: name it in rule_files. Generated from scripts/generators/alerts.ts by \`npm run generate\`.
`;

/** The alerts as a file of rules. Strings are JSON, which is also YAML. */
export function alertRules(): string {
  const groups = [
    { name: 'spillgate-gateway', rules: GATEWAY_ALERTS },
    { name: 'spillgate-limiter', rules: LIMITER_ALERTS },
  ];
  return `${RULES_HEADER}groups:\n${groups
    .map(({ name, rules }) => `  - name: ${name}\n    rules:\n${rules.map(ruleOf).join('')}`)
    .join('')}`;
}

/** The alerts as a section of a page: the condition below what it means. */
export function alertSection(alerts: readonly Alert[]): string {
  const blocks = alerts.map(
    ({ expr, description, for: length }) =>
      `# ${description}${length === '0m' ? '' : ` Holds for ${length}.`}\n${expr}`,
  );
  return `\`\`\`text\n${blocks.join('\n\n')}\n\`\`\``;
}

function ruleOf({ name, expr, for: length, severity, summary, description }: Alert): string {
  return [
    `      - alert: ${name}`,
    `        expr: ${JSON.stringify(expr)}`,
    `        for: ${length}`,
    `        labels: { severity: ${severity} }`,
    '        annotations:',
    `          summary: ${JSON.stringify(summary)}`,
    `          description: ${JSON.stringify(description)}`,
    '',
  ].join('\n');
}
