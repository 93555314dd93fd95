import type { OnReadOpts, Socket } from 'node:net';

/** What a socket does with bytes: false stops reading until `socket.resume()`. */
export type Receive = (bytes: Buffer, length: number) => boolean;

const RECEIVED_BYTES = 65_536;

/**
 * All connections read into one buffer: whoever receives something copies what it keeps before it returns. Otherwise Node.js allocates 64 KiB
 * for every read, and answers are small.
 */
const received = Buffer.allocUnsafeSlow(RECEIVED_BYTES);
const receivers = new WeakMap<Socket, Receive>();

/** For the options of a connection whose bytes go to `receiveFrom`. */
export const READ_INTO_ONE_BUFFER: OnReadOpts = {
  buffer: received,
  callback(this: Socket, length) {
    const receive = receivers.get(this);
    if (receive !== undefined) return receive(received, length);
    // Bytes before anybody asked for some.
    this.destroy();
    return false;
  },
};

export function receiveFrom(socket: Socket, receive: Receive): void {
  receivers.set(socket, receive);
}
