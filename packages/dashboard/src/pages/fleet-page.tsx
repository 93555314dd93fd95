import type { VNode } from 'preact';
import type { FleetInstances } from 'spillgate-gateway';
import { useTurn, type LiveFeed } from '../live-feed.ts';
import { Answered, useAsked } from '../parts/asked.tsx';
import { Card, Empty } from '../parts/card.tsx';
import { amount, moment, share } from '../words.ts';

/** Every instance that shares the store. */
export function FleetPage({ feed }: { readonly feed: LiveFeed }): VNode {
  const asked = useAsked<FleetInstances>('/v1/fleet', useTurn(feed));
  return (
    <>
      <div class="page-head">
        <h1>Fleet</h1>
        <p>The gateways and programs that share this store.</p>
      </div>
      <Answered asked={asked}>{(fleet) => <Instances fleet={fleet} />}</Answered>
    </>
  );
}

function Instances({ fleet }: { readonly fleet: FleetInstances }): VNode {
  const { instances, decisions, configurations } = fleet;
  if (instances.length === 0) {
    return (
      <Empty title="This gateway is alone">
        With a redis section, all instances that share it appear here.
      </Empty>
    );
  }
  const differ = configurations.length > 1;
  return (
    <>
      {differ ? (
        <div class="banner" role="status">
          <span class="dot degraded" aria-hidden="true" />
          The instances have {configurations.length} different configurations.
        </div>
      ) : undefined}
      <div class="grid">
        <Card
          title={`${instances.length} ${instances.length === 1 ? 'instance' : 'instances'}`}
          aside={
            <span class="muted numbers">
              {amount(decisions.allowed + decisions.denied)} decisions,{' '}
              {share(decisions.denied, decisions.allowed + decisions.denied)} denied
            </span>
          }
        >
          <InstanceTable fleet={fleet} />
        </Card>
      </div>
    </>
  );
}

function InstanceTable({ fleet }: { readonly fleet: FleetInstances }): VNode {
  return (
    <div class="table-wrap" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">Instance</th>
            <th scope="col">Version</th>
            <th scope="col">Since</th>
            <th scope="col">Configuration</th>
            <th scope="col" class="number">
              Allowed
            </th>
            <th scope="col" class="number">
              Denied
            </th>
          </tr>
        </thead>
        <tbody>
          {fleet.instances.map((each) => (
            <tr key={each.id}>
              <td>
                {each.name} {each.id === fleet.id ? <span class="pill">this one</span> : undefined}
              </td>
              <td>{each.version}</td>
              <td class="nowrap">{moment(Date.parse(each.startedAt))}</td>
              <td class="mono">{each.configHash.slice(0, 8)}</td>
              <td class="number">{amount(each.decisions.allowed)}</td>
              <td class="number">{amount(each.decisions.denied)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
