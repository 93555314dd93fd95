// A client that cannot come in has nobody to ask but the operator, so that the log has to say why.
import { once } from 'node:events';
import { connect, type ConnectionOptions } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { createCertificates } from '../../../../test/redis/certificates.ts';
import { keptLog } from './gateway-settings.ts';
import { eventually, RawClient, startOrigin, startRig } from './rig.ts';

const certificates = await createCertificates();
const strangers = await createCertificates();
const secureContext = {
  ...certificates.server,
  ca: certificates.ca,
  requestCert: true,
  rejectUnauthorized: true,
};

async function start(config?: object) {
  const log = keptLog();
  const rig = await startRig({ origin: await startOrigin(), secureContext, log, config });
  return { log, rig };
}

function shakeHands(port: number, options: ConnectionOptions = {}) {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, ...options });
  socket.on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  return socket;
}

const FAILED = 'warn a TLS handshake failed: the connection is closed';

test.each([
  [
    'no certificate',
    {},
    '{"address":"127.0.0.1","code":"ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE","detail":"peer did not return a certificate","unsaid":0}',
  ],
  ['one of a stranger', strangers.client, '{"detail":"UNABLE_TO_VERIFY_LEAF_SIGNATURE","unsaid":0}'],
])('a client with %s is named in the log', async (_name, shown, fields) => {
  const { log, rig } = await start();

  shakeHands(rig.port, shown);
  await eventually(() => log.lines.length > 0);

  expect(log.lines).toEqual([`${FAILED} ${fields}`]);
});

test('many handshakes that fail are one line', async () => {
  const { log, rig } = await start();

  for (let at = 0; at < 3; at += 1) {
    const socket = shakeHands(rig.port);
    await eventually(() => socket.destroyed);
  }

  expect(log.lines).toHaveLength(1);
});

test('a handshake that does not end in time is named in the log', async () => {
  const { log, rig } = await start({ server: { header_timeout: '100ms' } });

  await (await RawClient.connect(rig.port)).untilClosed();

  expect(log.lines).toEqual([
    `${FAILED} {"code":"ERR_TLS_HANDSHAKE_TIMEOUT","detail":"TLS handshake timeout","unsaid":0}`,
  ]);
});

test('somebody who connects and leaves is a health check, and no failure', async () => {
  const { log, rig } = await start();
  const client = await RawClient.connect(rig.port);

  client.socket.end();
  await client.untilClosed();
  const socket = shakeHands(rig.port, certificates.client);
  await once(socket, 'secureConnect');

  expect(log.lines.filter((line) => !line.startsWith('debug'))).toEqual([]);
});
