import type { VNode } from 'preact';
import type { LiveSample } from 'spillgate-gateway';
import { percentile, rateOf, ratesOf, type LiveFeed } from '../live-feed.ts';
import { useObservable } from '../observable.ts';
import { Card, Empty } from '../parts/card.tsx';
import { RateTable } from '../parts/rate-table.tsx';
import { TimeChart } from '../parts/time-chart.tsx';
import { mostDenied, type RecentLine } from '../decisions.ts';
import { amount, rate, share, span } from '../words.ts';

type Counted = 'allowed' | 'denied' | 'failed' | 'shadowDenied';

const COUNTED: readonly {
  readonly field: Counted;
  readonly name: string;
  readonly dot: string;
  readonly colour: string;
}[] = [
  { field: 'allowed', name: 'Allowed', dot: 'allowed', colour: '--allowed' },
  { field: 'denied', name: 'Denied', dot: 'denied', colour: '--denied' },
  { field: 'failed', name: 'Failed', dot: 'failed', colour: '--failed' },
  { field: 'shadowDenied', name: 'Shadow-denied', dot: 'shadow', colour: '--shadow-denied' },
];

export function LivePage({ feed }: { readonly feed: LiveFeed }): VNode {
  const { state, samples, recent } = useObservable(feed.view);
  const denials = useObservable(feed.denials);
  const last = recent.at(-1) ?? samples.at(-1);
  if (last === undefined) {
    return <Empty title={state === 'lost' ? 'No connection yet' : 'Connecting to the gateway…'} />;
  }
  return (
    <>
      <div class="page-head">
        <h1>Live</h1>
        <p>{headline(samples)}</p>
      </div>
      <div class={`grid ${state === 'lost' ? 'stale' : ''}`}>
        {COUNTED.map(({ field, name, dot }) => (
          <Tile key={field} name={name} dot={dot} samples={samples} field={field} />
        ))}
        <Traffic samples={samples} />
        <WhoIsDenied denials={denials} />
        <Latency samples={samples} />
        <StoreCard samples={samples} last={last} />
        <ByRule recent={recent} />
        <ByPolicy recent={recent} />
        <Backends last={last} />
      </div>
    </>
  );
}

function headline(samples: readonly LiveSample[]): string {
  const all = rateOf(samples, ({ requests }) => totalOf(requests));
  const denied = rateOf(samples, ({ requests }) => requests.denied);
  if (all === 0) return 'No requests at the moment.';
  return `${rate(all)} requests per second, ${share(denied, all)} of them denied.`;
}

function totalOf({ allowed, denied, failed, invalid, aborted }: LiveSample['requests']): number {
  return allowed + denied + failed + invalid + aborted;
}

interface TileProps {
  readonly name: string;
  readonly dot: string;
  readonly samples: readonly LiveSample[];
  readonly field: Counted;
}

function Tile({ name, dot, samples, field }: TileProps): VNode {
  const total = samples.at(-1)?.requests[field] ?? 0;
  return (
    <section class="card tile span-3" aria-label={name}>
      <span class="name">
        <span class={`dot ${dot}`} aria-hidden="true" />
        {name}
      </span>
      <span class="figure">
        {rate(rateOf(samples, ({ requests }) => requests[field]))} <small>per second</small>
      </span>
      <span class="note">{amount(total)} since the start</span>
    </section>
  );
}

function Traffic({ samples }: { readonly samples: readonly LiveSample[] }): VNode {
  return (
    <Card
      title="Requests per second"
      span={8}
      aside={
        <div class="legend">
          {COUNTED.map(({ name, dot }) => (
            <span key={name}>
              <span class={`dot ${dot}`} aria-hidden="true" />
              {name}
            </span>
          ))}
        </div>
      }
    >
      <TimeChart
        label={`Requests per second over the last five minutes. ${headline(samples)}`}
        height={240}
        times={samples.map(({ at }) => at)}
        format={amount}
        series={COUNTED.map(({ field, name, colour }) => ({
          label: name,
          colour,
          fill: field === 'allowed',
          values: ratesOf(samples, ({ requests }) => requests[field]),
        }))}
      />
    </Card>
  );
}

const SHOWN_DENIED = 6;

/** The first question at three in the morning. */
function WhoIsDenied({ denials }: { readonly denials: readonly RecentLine[] }): VNode {
  const keys = mostDenied(denials, SHOWN_DENIED);
  const most = keys[0]?.count ?? 1;
  return (
    <Card title="Who is denied" span={4} aside={<a href="#/denials">All denials</a>}>
      {keys.length === 0 ? (
        <Empty title="Nobody">Whoever is denied while this page is open appears here.</Empty>
      ) : (
        <ol class="ranking">
          {keys.map(({ key, count, reason }) => (
            <li key={key}>
              <a class="mono" href={`#/keys/${encodeURIComponent(key)}`}>
                {key}
              </a>
              <span class="number">
                {amount(count)} <small>denials</small>
              </span>
              <span class="bar" aria-hidden="true">
                <span style={{ width: `${(100 * count) / most}%` }} />
              </span>
              <span class="muted">{reason}</span>
            </li>
          ))}
        </ol>
      )}
    </Card>
  );
}

const PERCENTILES = [
  { part: 0.5, name: 'p50', colour: '--allowed' },
  { part: 0.9, name: 'p90', colour: '--shadow-denied' },
  { part: 0.99, name: 'p99', colour: '--denied' },
] as const;

/** Percentiles of single seconds jump: each point looks back so far. */
const LATENCY_SAMPLES = 10;

function Latency({ samples }: { readonly samples: readonly LiveSample[] }): VNode {
  const at = (index: number, part: number): number | undefined => {
    const sample = samples[index];
    if (sample === undefined) return undefined;
    return percentile(samples[Math.max(0, index - LATENCY_SAMPLES)]?.latency, sample.latency, part);
  };
  const now = PERCENTILES.map(({ part, name }) => ({ name, seconds: at(samples.length - 1, part) }));
  const decision = samples.at(-1)?.decisionLatency;
  const deciding =
    decision === undefined
      ? undefined
      : percentile(samples.at(-1 - LATENCY_SAMPLES)?.decisionLatency, decision, 0.99);
  return (
    <Card
      title="Latency"
      span={8}
      aside={
        <div class="legend">
          {now.map(({ name, seconds }, place) => (
            <span key={name}>
              <span class={`dot ${['allowed', 'shadow', 'denied'][place]}`} aria-hidden="true" />
              {name} {seconds === undefined ? '–' : span(seconds * 1000)}
            </span>
          ))}
          <span>decision p99 {deciding === undefined ? '–' : span(deciding * 1000)}</span>
        </div>
      }
    >
      <TimeChart
        label={`Latency of requests: ${now.map(({ name, seconds }) => `${name} ${seconds === undefined ? 'unknown' : span(seconds * 1000)}`).join(', ')}`}
        height={180}
        times={samples.map((sample) => sample.at)}
        format={(ms) => span(ms)}
        series={PERCENTILES.map(({ part, name, colour }) => ({
          label: name,
          colour,
          values: samples.map((_, index) => {
            const seconds = at(index, part);
            return seconds === undefined ? null : seconds * 1000;
          }),
        }))}
      />
    </Card>
  );
}

const STATUS_WORDS = { up: 'Up', degraded: 'Degraded', down: 'Down' } as const;

function StoreCard({
  samples,
  last,
}: {
  readonly samples: readonly LiveSample[];
  readonly last: LiveSample;
}): VNode {
  const { store, leases } = last;
  const decisions = rateOf(samples, (sample) => sample.decisions);
  const calls = rateOf(samples, (sample) => sample.storeCalls);
  const inMemory = store.nodes.every(({ name }) => name === 'memory');
  return (
    <Card
      title="Store"
      span={4}
      aside={
        <span class="pill">
          <span class={`dot ${store.status}`} aria-hidden="true" />
          {STATUS_WORDS[store.status]}
        </span>
      }
    >
      <dl class="facts figures">
        {store.nodes.slice(0, 6).map((node) => (
          <NodeFact key={node.name} node={node} />
        ))}
        <dt>Decisions</dt>
        <dd>{rate(decisions)} per second</dd>
        {inMemory ? undefined : (
          <>
            <dt>Redis calls per decision</dt>
            <dd>{decisions === 0 ? '–' : (calls / decisions).toFixed(2)}</dd>
            <dt>Leased tokens held</dt>
            <dd>{amount(leases.held)}</dd>
          </>
        )}
        <dt>Decided without the store</dt>
        <dd>{rate(rateOf(samples, (sample) => sample.degraded))} per second</dd>
        <dt>Requests in flight</dt>
        <dd>{amount(last.inFlight)}</dd>
        <dt>Connections</dt>
        <dd>{amount(last.connections)}</dd>
      </dl>
    </Card>
  );
}

function NodeFact({ node }: { readonly node: LiveSample['store']['nodes'][number] }): VNode {
  return (
    <>
      <dt>{node.name === 'memory' ? 'States are kept' : node.name}</dt>
      <dd>{node.name === 'memory' ? 'in memory' : (node.lastError ?? STATUS_WORDS[node.status])}</dd>
    </>
  );
}

function ByRule({ recent }: { readonly recent: readonly LiveSample[] }): VNode {
  const rules = recent.at(-1)?.rules ?? [];
  const rows = rules.map(({ rule }) => {
    const of = (field: Counted): number =>
      rateOf(recent, (sample) => sample.rules.find((each) => each.rule === rule)?.[field] ?? 0);
    return {
      name: rule === '' ? 'no rule' : rule,
      allowed: of('allowed'),
      denied: of('denied'),
      failed: of('failed'),
      shadowDenied: of('shadowDenied'),
    };
  });
  return (
    <Card title="By rule" span={6} aside={<span class="muted">per second</span>}>
      <RateTable
        what="Rule"
        columns={[
          { field: 'allowed', title: 'Allowed' },
          { field: 'denied', title: 'Denied' },
          { field: 'failed', title: 'Failed' },
          { field: 'shadowDenied', title: 'Shadow' },
        ]}
        rows={rows}
        empty="No request has been answered yet."
      />
    </Card>
  );
}

function ByPolicy({ recent }: { readonly recent: readonly LiveSample[] }): VNode {
  const policies = recent.at(-1)?.policies ?? [];
  const rows = policies.map(({ policy }) => {
    const of = (field: 'allowed' | 'denied'): number =>
      rateOf(recent, (sample) => sample.policies.find((each) => each.policy === policy)?.[field] ?? 0);
    return { name: policy, allowed: of('allowed'), denied: of('denied') };
  });
  return (
    <Card title="By policy" span={6} aside={<span class="muted">per second</span>}>
      <RateTable
        what="Policy"
        columns={[
          { field: 'allowed', title: 'Allowed' },
          { field: 'denied', title: 'Denied' },
        ]}
        rows={rows}
        empty="No policy has been asked yet."
      />
    </Card>
  );
}

function Backends({ last }: { readonly last: LiveSample }): VNode {
  return (
    <Card title="Backends">
      {last.backends.length === 0 ? (
        <Empty title="No backend is configured">Set backend.url in the configuration.</Empty>
      ) : (
        <div class="table-wrap" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">Address</th>
                <th scope="col">Health</th>
                <th scope="col">Last error</th>
                <th scope="col" class="number">
                  In flight
                </th>
              </tr>
            </thead>
            <tbody>
              {last.backends.map(({ origin, healthy, inFlight, lastError }) => (
                <tr key={origin}>
                  <td class="mono">{origin}</td>
                  <td>
                    <span class={`pill ${healthy ? 'allowed' : 'failed'}`}>
                      {healthy ? 'Healthy' : 'Down'}
                    </span>
                  </td>
                  <td class="muted">{lastError ?? '–'}</td>
                  <td class="number">{amount(inFlight)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}
