import { METRICS as LIMITER } from '#limiter/metrics/metric-table.js';
import { METRICS as GATEWAY } from '#gateway/telemetry/metric-table.js';

interface TableMetric {
  readonly name: string;
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
  readonly help: string;
  readonly workers?: 'sum' | 'min' | 'max';
}

interface Query {
  readonly expr: string;
  readonly legend: string;
}

interface Panel {
  readonly title: string;
  readonly description?: string;
  readonly unit: string;
  readonly queries: readonly Query[];
}

const SELECTED = '{job=~"$job", instance=~"$instance"}';
const PANEL = { width: 8, height: 8 };
const COLUMNS = 24 / PANEL.width;

/** What an operator looks at first. The rows below it have a panel for every metric of the two tables. */
const OVERVIEW: readonly Panel[] = [
  {
    title: 'Requests',
    unit: 'reqps',
    queries: [
      {
        expr: `sum by (outcome) (rate(${GATEWAY.requests.name}${SELECTED}[$__rate_interval]))`,
        legend: '{{outcome}}',
      },
    ],
  },
  {
    title: 'Share of requests refused, by rule',
    unit: 'percentunit',
    queries: [
      {
        expr:
          `sum by (rule) (rate(${GATEWAY.requests.name}{job=~"$job", instance=~"$instance", outcome="refused"}[$__rate_interval]))` +
          ` / sum by (rule) (rate(${GATEWAY.requests.name}${SELECTED}[$__rate_interval]))`,
        legend: '{{rule}}',
      },
    ],
  },
  {
    title: 'Duration of forwarded requests',
    unit: 's',
    queries: quantilesOf(GATEWAY.requestDuration.name, 'outcome="forwarded"'),
  },
  {
    title: 'Decisions, by policy and outcome',
    unit: 'ops',
    queries: [
      {
        expr: `sum by (policy, outcome) (rate(${LIMITER.decisions.name}${SELECTED}[$__rate_interval]))`,
        legend: '{{policy}} {{outcome}}',
      },
    ],
  },
  {
    title: 'Decisions, by what decided',
    description: 'fallback and failurePolicy mean that the store did not decide',
    unit: 'ops',
    queries: [
      {
        expr: `sum by (source) (rate(${LIMITER.decisions.name}${SELECTED}[$__rate_interval]))`,
        legend: '{{source}}',
      },
    ],
  },
  {
    title: 'Duration of decisions of the store',
    unit: 's',
    queries: quantilesOf(LIMITER.decisionDuration.name, 'source="store"'),
  },
];

/** A dashboard for Grafana, from the tables of metrics. */
export function grafanaDashboard(): string {
  const rows: readonly (readonly [string, readonly Panel[]])[] = [
    ['Overview', OVERVIEW],
    [
      'Gateway',
      Object.values(GATEWAY)
        .filter(({ name }) => !isExternal(name))
        .map(panelOf),
    ],
    [
      'External limits',
      Object.values(GATEWAY)
        .filter(({ name }) => isExternal(name))
        .map(panelOf),
    ],
    ['Limiter and store', Object.values(LIMITER).map(panelOf)],
  ];
  const panels: object[] = [];
  let y = 0;
  for (const [title, entries] of rows) {
    panels.push({
      id: panels.length + 1,
      type: 'row',
      title,
      collapsed: false,
      gridPos: { x: 0, y, w: 24, h: 1 },
      panels: [],
    });
    y += 1;
    for (const [at, panel] of entries.entries()) {
      const place = { x: (at % COLUMNS) * PANEL.width, y: y + Math.floor(at / COLUMNS) * PANEL.height };
      panels.push(grafanaPanel(panel, panels.length + 1, place));
    }
    y += Math.ceil(entries.length / COLUMNS) * PANEL.height;
  }
  return `${JSON.stringify(dashboardWith(panels), undefined, 2)}\n`;
}

function dashboardWith(panels: readonly object[]): object {
  return {
    uid: 'spillgate',
    title: 'Spillgate',
    description: 'Generated from the tables of metrics by `npm run generate`.',
    tags: ['spillgate'],
    editable: true,
    graphTooltip: 1,
    refresh: '10s',
    schemaVersion: 39,
    time: { from: 'now-30m', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus' },
        variable('job', 'Job', `label_values(${GATEWAY.build.name}, job)`),
        variable('instance', 'Instance', `label_values(${GATEWAY.build.name}{job=~"$job"}, instance)`),
      ],
    },
    panels,
  };
}

function variable(name: string, label: string, query: string): object {
  return {
    name,
    label,
    type: 'query',
    datasource: { type: 'prometheus', uid: '${datasource}' },
    query: { query, refId: name },
    refresh: 2,
    multi: true,
    includeAll: true,
    allValue: '.*',
    current: { text: 'All', value: '$__all' },
  };
}

function grafanaPanel(
  { title, description, unit, queries }: Panel,
  id: number,
  at: { x: number; y: number },
): object {
  return {
    id,
    type: 'timeseries',
    title,
    ...(description === undefined ? {} : { description }),
    datasource: { type: 'prometheus', uid: '${datasource}' },
    gridPos: { ...at, w: PANEL.width, h: PANEL.height },
    fieldConfig: { defaults: { unit, min: 0, custom: { fillOpacity: 8, lineWidth: 1 } }, overrides: [] },
    options: {
      legend: { displayMode: 'list', placement: 'bottom' },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
    targets: queries.map(({ expr, legend }, index) => ({
      refId: `Q${index + 1}`,
      expr,
      legendFormat: legend,
    })),
  };
}

function panelOf(metric: TableMetric): Panel {
  const { name, kind, labels, help } = metric;
  const base = { title: help, description: name, unit: unitOf(metric) };
  if (kind === 'histogram') return { ...base, queries: quantilesOf(name) };
  const value = kind === 'counter' ? `rate(${name}${SELECTED}[$__rate_interval])` : `${name}${SELECTED}`;
  const together = metric.workers ?? 'sum';
  const by = kind === 'gauge' && together !== 'sum' ? ['instance', ...labels] : labels;
  const grouped = by.length === 0 ? `${together}(${value})` : `${together} by (${by.join(', ')}) (${value})`;
  return {
    ...base,
    queries: [{ expr: grouped, legend: by.map((label) => `{{${label}}}`).join(' ') || name }],
  };
}

function quantilesOf(name: string, condition?: string): readonly Query[] {
  const selected = condition === undefined ? SELECTED : SELECTED.replace('}', `, ${condition}}`);
  return [0.5, 0.95, 0.99].map((quantile) => ({
    expr: `histogram_quantile(${quantile}, sum by (le) (rate(${name}_bucket${selected}[$__rate_interval])))`,
    legend: `p${quantile * 100}`,
  }));
}

function unitOf({ name, kind }: TableMetric): string {
  if (name.endsWith('_timestamp_seconds')) return 'dateTimeFromNow';
  if (name.endsWith('_seconds')) return 's';
  if (name.endsWith('_bytes_total')) return 'Bps';
  return kind === 'counter' ? 'ops' : 'short';
}

function isExternal(name: string): boolean {
  return name.startsWith('spillgate_gateway_external_');
}
