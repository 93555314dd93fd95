import type { Command } from '#limiter/stores/redis/script.js';
import type { RedisConnection } from '#limiter/stores/redis/connection.js';

const VERSION = 'redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\n';

/** A connection that answers what it is told to, and remembers what was done to it. */
export class FakeConnection implements RedisConnection {
  readonly name = '10.0.0.1:6379';
  readonly done: string[] = [];
  readonly sent: string[] = [];
  readonly opening: Promise<void> = Promise.resolve();
  connected = true;
  reply: (command: Command) => Promise<unknown> = async ({ name }) => (name === 'INFO' ? VERSION : 'OK');
  private ready: () => void = () => undefined;
  private lost: (error: Error) => void = () => undefined;

  async send(command: Command): Promise<unknown> {
    this.sent.push(command.name);
    return this.reply(command);
  }

  isReady(): boolean {
    return this.connected;
  }

  connectionError(): undefined {
    return undefined;
  }

  onReady(listener: () => void): void {
    this.ready = listener;
  }

  onLost(listener: (error: Error) => void): void {
    this.lost = listener;
  }

  renew(reason: Error): undefined {
    this.done.push(`renew: ${reason.message}`);
  }

  async close(): Promise<void> {
    this.done.push('close');
  }

  lose(reason: string): void {
    this.connected = false;
    this.lost(new Error(reason));
  }

  find(): void {
    this.connected = true;
    this.ready();
  }
}
