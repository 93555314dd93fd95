import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** What becomes of something on its way from the client to the server. */
type Fate = 'delivered' | 'lost' | 'unanswered';

export interface ProxyOptions {
  /** Where connections go that are opened from now on. */
  readonly port: number;
  /** Changes what the server sends on its way to the client. */
  readonly rewrite?: (chunk: Buffer) => Buffer;
  /** How long every answer takes on top, as over a long way. */
  readonly delayMs?: number;
}

/** Stands between a client and a server, and does to connections what networks do. */
export class Proxy {
  readonly host = '127.0.0.1';
  readonly #server: Server;
  readonly #pairs = new Set<Pair>();
  readonly #rewrite: (chunk: Buffer) => Buffer;
  #upstreamPort: number;
  #delayMs: number;
  #connections = 0;
  #fateOf: (chunk: Buffer) => Fate = () => 'delivered';

  private constructor({ port, rewrite = (chunk) => chunk, delayMs = 0 }: ProxyOptions) {
    this.#upstreamPort = port;
    this.#delayMs = delayMs;
    this.#rewrite = rewrite;
    this.#server = createServer((client) => {
      this.#join(client);
    });
  }

  static async start(options: ProxyOptions): Promise<Proxy> {
    const proxy = new Proxy(options);
    await new Promise<void>((resolve) => {
      proxy.#server.listen(0, proxy.host, resolve);
    });
    return proxy;
  }

  get port(): number {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what a server that listens by TCP has
    return (this.#server.address() as AddressInfo).port;
  }

  /** How many connections have been opened so far. */
  get connections(): number {
    return this.#connections;
  }

  get url(): string {
    return `redis://${this.host}:${this.port}`;
  }

  /** New connections go to another server; open ones stay where they are. */
  redirect(port: number): void {
    this.#upstreamPort = port;
  }

  /** From now on every answer takes so much longer. */
  delay(delayMs: number): void {
    this.#delayMs = delayMs;
  }

  /** Ends every connection by a TCP reset. */
  reset(): void {
    for (const { client } of this.#pairs) client.resetAndDestroy();
  }

  /** Connections stay open, and nothing comes through any of them ever again, as when a machine lost its power. */
  forsake(): void {
    for (const { client, upstream } of this.#pairs) {
      client.removeAllListeners('data').resume();
      upstream.removeAllListeners('data').resume();
    }
  }

  /** Decides about every chunk; one that is lost or stays unanswered takes its connection with it. */
  judge(fateOf: (chunk: Buffer) => Fate): void {
    this.#fateOf = fateOf;
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const { client } of this.#pairs) client.destroy();
    await closed;
  }

  /** Nothing overtakes what was sent before it. */
  #answer(pair: Pair, chunk: Buffer): void {
    const dueAtMs = Math.max(pair.lastDueAtMs, performance.now() + this.#delayMs);
    pair.lastDueAtMs = dueAtMs;
    const leftMs = dueAtMs - performance.now();
    if (leftMs <= 0) pair.client.write(chunk);
    else setTimeout(() => pair.client.write(chunk), Math.ceil(leftMs)).unref();
  }

  #join(client: Socket): void {
    const upstream = connect({ host: this.host, port: this.#upstreamPort });
    const pair: Pair = { client, upstream, lastDueAtMs: 0 };
    this.#pairs.add(pair);
    this.#connections += 1;
    client.on('data', (chunk) => {
      const fate = this.#fateOf(chunk);
      if (fate !== 'lost') upstream.write(chunk);
      if (fate !== 'delivered') client.resetAndDestroy();
    });
    upstream.on('data', (chunk) => this.#answer(pair, this.#rewrite(chunk)));
    // What was written before is still delivered: a command whose client is gone runs all the same.
    client.on('close', () => upstream.end());
    upstream.on('close', () => {
      client.destroy();
      this.#pairs.delete(pair);
    });
    client.on('error', () => undefined);
    upstream.on('error', () => undefined);
  }
}

interface Pair {
  readonly client: Socket;
  readonly upstream: Socket;
  /** When what came last from the server is passed on. */
  lastDueAtMs: number;
}
