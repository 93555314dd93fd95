import { IncomingMessage } from 'node:http';

/**
 * A request that asks for another protocol only if that is a WebSocket. Node.js stops reading HTTP on a connection that asks for any upgrade;
 * clients that offer `Upgrade: h2c` would hang, and what follows their headers would be taken for something else (RFC 9110 §7.8 lets us
 * ignore the offer).
 */
export class ClientMessage extends IncomingMessage {
  /** Also of protocols that are not spoken here. */
  upgradeAsked = false;

  get upgrade(): boolean {
    return (
      this.upgradeAsked && (this.method === 'CONNECT' || this.headers.upgrade?.toLowerCase() === 'websocket')
    );
  }

  set upgrade(asked: boolean | null) {
    this.upgradeAsked = asked === true;
  }
}
