import type { Config } from '../../config/config.ts';

/** One of several servers, as far as choosing between them goes. */
export interface Candidate {
  readonly weight: number;
  readonly inFlight: number;
  readonly healthy: boolean;
  readonly suspect: boolean;
}

/** Chooses who gets the next request. Servers under suspicion get one only when there is no other. */
export class Balancer<Server extends Candidate> {
  private readonly servers: readonly WeightedServer<Server>[];
  private readonly strategy: Config['backend']['load_balancing'];

  constructor(servers: readonly Server[], strategy: Config['backend']['load_balancing']) {
    this.servers = servers.map((server) => ({ server, credit: 0 }));
    this.strategy = strategy;
  }

  next(): Server | undefined {
    const healthy = this.servers.filter(({ server }) => server.healthy);
    if (healthy.length <= 1) return healthy[0]?.server;
    const trusted = healthy.filter(({ server }) => !server.suspect);
    const candidates = trusted.length === 0 ? healthy : trusted;
    return takeTurn(this.strategy === 'leastConnections' ? leastLoaded(candidates) : candidates);
  }
}

interface WeightedServer<Server> {
  readonly server: Server;
  credit: number;
}

/**
 * Smooth weighted round robin, as nginx does it: everyone earns his weight, the richest goes and pays what all earned.
 * Weights 5, 1, 1 give a a b a c a a, not a a a a a b c.
 */
function takeTurn<Server extends Candidate>(turns: readonly WeightedServer<Server>[]): Server | undefined {
  let richest: WeightedServer<Server> | undefined;
  let earned = 0;
  for (const turn of turns) {
    turn.credit += turn.server.weight;
    earned += turn.server.weight;
    if (richest === undefined || turn.credit > richest.credit) richest = turn;
  }
  if (richest !== undefined) richest.credit -= earned;
  return richest?.server;
}

/** Those with the fewest requests in flight per weight; more than one when they are equal. */
function leastLoaded<Server extends Candidate>(
  turns: readonly WeightedServer<Server>[],
): readonly WeightedServer<Server>[] {
  const least = Math.min(...turns.map(({ server }) => loadOf(server)));
  return turns.filter(({ server }) => loadOf(server) === least);
}

function loadOf({ inFlight, weight }: Candidate): number {
  return inFlight / weight;
}
