import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { watchdog } from './watchdog.ts';

/** All in PEM. */
export interface Certificates {
  readonly ca: string;
  readonly server: KeyPair;
  readonly client: KeyPair;
}

export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

const SERVER_NAMES = 'subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:redis.test';
const NEW_KEY = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes';

const runFile = promisify(execFile);

/** A new authority and two certificates from it; the server's is for 127.0.0.1, `localhost` and `redis.test`. */
export async function createCertificates(): Promise<Certificates> {
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-certificates-'));
  watchdog.hold(folder);
  try {
    await openssl(folder, `req -x509 -days 1 -subj /CN=authority ${NEW_KEY} -keyout ca.key -out ca.crt`);
    const [server, client] = await Promise.all([
      issue(folder, 'server', `extendedKeyUsage=serverAuth\n${SERVER_NAMES}\n`),
      issue(folder, 'client', 'extendedKeyUsage=clientAuth\n'),
    ]);
    return { ca: read(folder, 'ca.crt'), server, client };
  } finally {
    watchdog.drop(folder);
    rmSync(folder, { recursive: true, force: true });
  }
}

async function issue(folder: string, name: string, extensions: string): Promise<KeyPair> {
  writeFileSync(join(folder, `${name}.ext`), extensions);
  await openssl(folder, `req -new -subj /CN=${name} ${NEW_KEY} -keyout ${name}.key -out ${name}.csr`);
  const authority = `-CA ca.crt -CAkey ca.key -set_serial 0x${randomBytes(8).toString('hex')}`;
  await openssl(
    folder,
    `x509 -req -days 1 -in ${name}.csr -out ${name}.crt -extfile ${name}.ext ${authority}`,
  );
  return { cert: read(folder, `${name}.crt`), key: read(folder, `${name}.key`) };
}

async function openssl(folder: string, args: string): Promise<void> {
  await runFile('openssl', args.split(' '), { cwd: folder });
}

function read(folder: string, name: string): string {
  return readFileSync(join(folder, name), 'utf8');
}
