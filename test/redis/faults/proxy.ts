import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** What becomes of something on its way from the client to the server. */
type Fate = 'delivered' | 'lost' | 'unanswered';

export interface ProxyOptions {
  /** Where connections go that are opened from now on. */
  readonly port: number;
  /** Changes what the server sends on its way to the client. */
  readonly rewrite?: (chunk: Buffer) => Buffer;
}

/** Stands between a client and a server, and does to connections what networks do. */
export class Proxy {
  readonly host = '127.0.0.1';
  readonly #server: Server;
  readonly #pairs = new Set<Pair>();
  readonly #rewrite: (chunk: Buffer) => Buffer;
  #upstreamPort: number;
  #connections = 0;
  #fateOf: (chunk: Buffer) => Fate = () => 'delivered';

  private constructor({ port, rewrite = (chunk) => chunk }: ProxyOptions) {
    this.#upstreamPort = port;
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

  #join(client: Socket): void {
    const upstream = connect({ host: this.host, port: this.#upstreamPort });
    const pair = { client, upstream };
    this.#pairs.add(pair);
    this.#connections += 1;
    client.on('data', (chunk) => {
      const fate = this.#fateOf(chunk);
      if (fate !== 'lost') upstream.write(chunk);
      if (fate !== 'delivered') client.resetAndDestroy();
    });
    upstream.on('data', (chunk) => client.write(this.#rewrite(chunk)));
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
}
