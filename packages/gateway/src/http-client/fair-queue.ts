/** The requests of one client: those that wait, and how many are under way. */
export interface ClientRequests<Call> {
  readonly waiting: Call[];
  running: number;
  maxRunning: number;
  /** Its turn will come. */
  inLine: boolean;
}

/** Clients without requests that are remembered, so that the next one of each needs no new object. */
const MAX_REMEMBERED = 1000;

/**
 * Calls that wait, served by turns: one of each client, then the next of each. A client that has as many under way as
 * it may waits until one of them ends, and holds up nobody. Calls without a client share one place in the line and have
 * no bound.
 */
export class FairQueue<Call> {
  private maxRunning: number;
  private readonly clients = new Map<string, ClientRequests<Call>>();
  private readonly unnamed: ClientRequests<Call> = newcomer(Infinity);
  private readonly line: ClientRequests<Call>[] = [];
  private waiting = 0;

  constructor(maxRunningPerClient: number) {
    this.maxRunning = maxRunningPerClient;
  }

  /** Calls that wait. */
  get length(): number {
    return this.waiting;
  }

  requestsOf(client: string | undefined): ClientRequests<Call> {
    if (client === undefined) return this.unnamed;
    const known = this.clients.get(client);
    if (known !== undefined) return known;
    if (this.clients.size >= MAX_REMEMBERED) this.forgetIdle();
    const requests = newcomer<Call>(this.maxRunning);
    this.clients.set(client, requests);
    return requests;
  }

  /** Another bound from now on; what is under way goes on. */
  limitTo(maxRunningPerClient: number): void {
    if (maxRunningPerClient === this.maxRunning) return;
    this.maxRunning = maxRunningPerClient;
    for (const requests of this.clients.values()) {
      requests.maxRunning = maxRunningPerClient;
      if (requests.running >= maxRunningPerClient) this.leave(requests);
      else this.enter(requests);
    }
  }

  push(call: Call, requests: ClientRequests<Call>): void {
    requests.waiting.push(call);
    this.waiting += 1;
    this.enter(requests);
  }

  /** Whose turn it is; it counts as running until `ended`. */
  next(): Call | undefined {
    const requests = this.line.shift();
    if (requests === undefined) return undefined;
    requests.inLine = false;
    const call = requests.waiting.shift();
    if (call === undefined) return undefined;
    this.waiting -= 1;
    requests.running += 1;
    this.enter(requests);
    return call;
  }

  /** One that was running. */
  ended(requests: ClientRequests<Call>): void {
    requests.running -= 1;
    this.enter(requests);
  }

  /** One that waits gives up. */
  remove(call: Call, requests: ClientRequests<Call>): void {
    const at = requests.waiting.indexOf(call);
    if (at === -1) return;
    requests.waiting.splice(at, 1);
    this.waiting -= 1;
    if (requests.waiting.length === 0) this.leave(requests);
  }

  /** The call whose turn is next, without taking it. */
  first(): Call | undefined {
    return this.line[0]?.waiting[0];
  }

  /** How many could run now if there were connections for all of them. */
  runnable(): number {
    let count = 0;
    for (const { waiting, running, maxRunning } of this.line) {
      count += Math.min(waiting.length, maxRunning - running);
    }
    return count;
  }

  /** Everything that waits, which then waits no more. */
  takeAll(): readonly Call[] {
    const all = [this.unnamed, ...this.clients.values()].flatMap(({ waiting }) => waiting.splice(0));
    for (const requests of this.line.splice(0)) requests.inLine = false;
    this.waiting = 0;
    return all;
  }

  private enter(requests: ClientRequests<Call>): void {
    const { inLine, waiting, running, maxRunning } = requests;
    if (inLine || waiting.length === 0 || running >= maxRunning) return;
    requests.inLine = true;
    this.line.push(requests);
  }

  private leave(requests: ClientRequests<Call>): void {
    if (!requests.inLine) return;
    requests.inLine = false;
    this.line.splice(this.line.indexOf(requests), 1);
  }

  private forgetIdle(): void {
    for (const [client, { waiting, running }] of this.clients) {
      if (waiting.length === 0 && running === 0) this.clients.delete(client);
    }
  }
}

function newcomer<Call>(maxRunning: number): ClientRequests<Call> {
  return { waiting: [], running: 0, maxRunning, inLine: false };
}
