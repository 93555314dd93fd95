import type { Worker } from 'node:cluster';

interface Handle {
  close(): void;
}

/**
 * Connections that Node has handed to a worker and the worker has not taken yet. Node forgets them if the worker dies
 * in between: the client would stay connected to nobody. They are closed, as those that the worker had taken are.
 */
export function closeUntakenOnExit(worker: Worker): void {
  const untaken = new Map<number, Handle>();
  const { process: child } = worker;
  child.send = new Proxy(child.send.bind(child), {
    apply(send, _, sent: readonly unknown[]): unknown {
      const [message, handle] = sent;
      if (isHandedOver(message) && isHandle(handle)) untaken.set(message.seq, handle);
      return Reflect.apply(send, child, sent);
    },
  });
  child.on('internalMessage', ({ ack }: { readonly ack?: number }) => {
    if (ack !== undefined) untaken.delete(ack);
  });
  worker.once('exit', () => {
    for (const handle of untaken.values()) handle.close();
  });
}

/** Node's own message that comes with a connection; the worker's answer names its number. */
function isHandedOver(message: unknown): message is { readonly seq: number } {
  return typeof message === 'object' && message !== null && 'act' in message && message.act === 'newconn';
}

function isHandle(value: unknown): value is Handle {
  return typeof value === 'object' && value !== null && 'close' in value;
}
