import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { afterEach, expect, test } from 'vitest';
import { createCertificates } from '../../../../test/redis/servers.ts';
import { GatewayProcess } from './gateway-process.ts';

let gateway: GatewayProcess | undefined;

afterEach(async () => {
  await gateway?.remove();
});

/** Which certificate a new connection is shown. */
async function fingerprint(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().fingerprint256);
      socket.end();
    });
    socket.on('error', reject);
  });
}

test('HTTPS with certificates that are replaced while it runs; half of a pair is not used', async () => {
  const [first, second] = await Promise.all([createCertificates(), createCertificates()]);
  gateway = new GatewayProcess();
  const [cert, key] = [join(gateway.folder, 'server.crt'), join(gateway.folder, 'server.key')];
  const put = (file: string, text: string): void => {
    writeFileSync(`${file}.new`, text);
    renameSync(`${file}.new`, file);
  };
  put(cert, first.server.cert);
  put(key, first.server.key);
  gateway.write(
    `server: { address: "127.0.0.1:0", tls: { enabled: true, cert_file: "${cert}", key_file: "${key}" } }\nadmin: { address: "127.0.0.1:0" }\n`,
  );
  await gateway.launch();
  const before = await fingerprint(gateway.port);

  put(cert, second.server.cert);
  await gateway.line(({ msg }) => msg.startsWith('certificate files changed and cannot be served'));
  const halfway = await fingerprint(gateway.port);
  put(key, second.server.key);
  await gateway.line(({ msg }) => msg.startsWith('certificate changed'));
  const after = await fingerprint(gateway.port);

  expect(halfway).toBe(before);
  expect(after).not.toBe(before);
  expect(readFileSync(key, 'utf8')).toBe(second.server.key);
});
