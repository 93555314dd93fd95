// A client that has left holds nothing: neither a connection nor a backend, however much it was still to be sent.
import { once } from 'node:events';
import { connect } from 'node:net';
import { connect as connectSecure } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { createCertificates } from '../../../../test/redis/certificates.ts';
import { frame, headersFrame, replaced, TYPE } from './http2-frames.ts';
import { eventually, startOrigin, startRig } from './rig.ts';

const { server: secureContext } = await createCertificates();

const ZERO_WINDOW = Buffer.from([0, 4, 0, 0, 0, 0]);
/** As many as one address may have at a backend: half of the connections. */
const STREAMS = 4;

test.each([
  ['without TLS', undefined],
  ['with TLS', secureContext],
])('%s, an HTTP/2 client with blocked streams that ends its connection frees them', async (_name, tls) => {
  const origin = await startOrigin((_request, response) => response.end('x'.repeat(2 ** 20)));
  const rig = await startRig({ origin, secureContext: tls, maxConnections: 2 * STREAMS });
  const address = { port: rig.port, host: '127.0.0.1', allowHalfOpen: true };
  const socket =
    tls === undefined
      ? connect(address)
      : connectSecure({ ...address, rejectUnauthorized: false, ALPNProtocols: ['h2'] });
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => undefined).resume();
  await once(socket, tls === undefined ? 'connect' : 'secureConnect');
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  socket.write(frame(TYPE.settings, 0, 0, ZERO_WINDOW));
  for (let at = 0; at < STREAMS; at += 1) {
    socket.write(headersFrame(2 * at + 1, replaced(':path', '/big')));
  }
  await eventually(() => origin.requests.length === STREAMS);

  socket.end();

  await eventually(() => rig.opened.connections === 0 && rig.upstreams.inFlight === 0);
  expect(rig.finished).toHaveLength(STREAMS);
  expect(rig.finished.every(({ outcome }) => outcome === 'aborted')).toBe(true);
});
