import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('server-child.js', import.meta.url));

/** A server under test, on the other core. It ends with this process. */
export class ServerProcess {
  readonly port: number;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
  }

  static async start(candidate: number, redisPort: number): Promise<ServerProcess> {
    const child = fork(PROGRAM, [String(candidate), String(redisPort)]);
    return new ServerProcess(child, await answer(child, 'port'));
  }

  /** Processor time that it has used so far. */
  async cpuUs(): Promise<number> {
    return this.#ask(0);
  }

  /** Processor time that one request takes when nothing is sent. */
  async cpuUsWithoutSockets(budgetMs: number): Promise<number> {
    return this.#ask(budgetMs);
  }

  stop(): void {
    this.#child.disconnect();
  }

  async #ask(budgetMs: number): Promise<number> {
    const answered = answer(this.#child, 'cpuUs');
    this.#child.send(budgetMs);
    return answered;
  }
}

async function answer(child: ChildProcess, field: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const fail = (code: number | null): void =>
      reject(new Error(`a server ended by itself (${code ?? 'signal'})`));
    child.once('exit', fail);
    child.once('message', (message) => {
      child.off('exit', fail);
      resolve(typeof message === 'object' ? Number(Reflect.get(message, field)) : Number.NaN);
    });
  });
}
