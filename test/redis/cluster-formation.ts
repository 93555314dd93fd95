import { isComplete, type Layout, type NodeView, parseNodes } from './cluster-layout.ts';
import { eventually } from './polling.ts';
import type { RedisServer } from './redis-server.ts';

/**
 * Makes masters of the first nodes. All have started as replicas of masters that never existed, because a master
 * refuses commands for two seconds after its start and a replica that takes over does not.
 */
export async function formCluster(nodes: readonly RedisServer[], layout: Layout): Promise<void> {
  const { former } = layout;
  // What a node says before it is linked to another reaches that one by gossip only, up to a second later.
  await eventually('all nodes are linked', async () =>
    everyNode(nodes, (views) => views.every(({ id, connected }) => connected || former.includes(id))),
  );
  for (const [part, id] of former.entries()) {
    await nodes[part]?.command('CLUSTER', 'FAILOVER', 'TAKEOVER');
    // One by one: two that take over at the same time choose the same epoch, and need a second to resolve it.
    await eventually('all nodes know who took over', async () =>
      everyNode(nodes, (views) => !views.some((view) => servesAny(view, id))),
    );
  }
  await eventually('all replicas have their new master', async () =>
    everyNode(nodes, (views) => !former.includes(ownMaster(views))),
  );
  await Promise.all(nodes.flatMap((node) => former.map(async (id) => node.command('CLUSTER', 'FORGET', id))));
  await eventually('all nodes agree', async () => everyNode(nodes, (views) => isComplete(views, layout)));
  await eventually('all nodes serve', async () => (await Promise.all(nodes.map(isServing))).every(Boolean));
}

async function everyNode(
  nodes: readonly RedisServer[],
  seesWhatItShould: (views: readonly NodeView[]) => boolean,
): Promise<boolean> {
  const views = await Promise.all(
    nodes.map(async (node) => parseNodes(await node.command('CLUSTER', 'NODES'))),
  );
  return views.every(seesWhatItShould);
}

async function isServing(node: RedisServer): Promise<boolean> {
  return String(await node.command('CLUSTER', 'INFO')).includes('cluster_state:ok');
}

function servesAny(view: NodeView, id: string): boolean {
  return view.id === id && view.slots.length > 0;
}

function ownMaster(views: readonly NodeView[]): string {
  return views.find(({ flags }) => flags.includes('myself'))?.masterId ?? '';
}
