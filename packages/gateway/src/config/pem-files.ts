import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import { pathText, type Path } from './path.ts';
import { SettingError } from './problem.ts';

/** A setting and the file that it names. */
export interface NamedFile {
  readonly path: Path;
  readonly file: string;
}

/** The same with what the file says. */
export interface PemFile extends NamedFile {
  readonly text: string;
}

const CERTIFICATE = /-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----[^-]+-----END \1-----/g;

/** At least one. Like all of these it throws a `SettingError` if the file is not what it should be. */
export function certificatesIn(
  pem: PemFile,
): readonly [first: X509Certificate, ...more: readonly X509Certificate[]] {
  const [first, ...more] = readCertificates(pem);
  if (first === undefined) {
    throw complaint(pem, {
      what: 'contains no certificate (PEM)',
      advice: 'A certificate begins with "-----BEGIN CERTIFICATE-----".',
    });
  }
  return [first, ...more];
}

/** The certificate whose key this is. */
export function certificateOfPair(cert: PemFile, key: PemFile): X509Certificate {
  const [certificate] = certificatesIn(cert);
  if (certificate.checkPrivateKey(privateKeyIn(key))) return certificate;
  throw complaint(key, {
    what: `is not the key of the certificate in ${cert.file}`,
    advice: 'Name the files of one pair.',
  });
}

function readCertificates(pem: PemFile): readonly X509Certificate[] {
  try {
    return [...pem.text.matchAll(CERTIFICATE)].map(([text]) => new X509Certificate(text));
  } catch (cause) {
    const what = 'contains a certificate that cannot be read';
    throw complaint(pem, { what, advice: 'Is the file complete?', cause });
  }
}

function privateKeyIn(pem: PemFile): KeyObject {
  try {
    return createPrivateKey(pem.text);
  } catch (cause) {
    throw complaint(pem, { ...(pem.text.includes('ENCRYPTED') ? ENCRYPTED_KEY : NO_KEY), cause });
  }
}

const NO_KEY = {
  what: 'contains no private key (PEM)',
  advice: 'A key begins with a line such as "-----BEGIN PRIVATE KEY-----".',
};
const ENCRYPTED_KEY = {
  what: 'is encrypted; decrypt it first',
  advice: 'For instance with: openssl pkey -in encrypted.key -out plain.key.',
};

interface Found {
  /** Continues "the file ...". */
  readonly what: string;
  readonly advice: string;
  readonly cause?: unknown;
}

function complaint({ path, file }: NamedFile, { what, advice, cause }: Found): SettingError {
  return new SettingError(path, `${pathText(path)} (${file}) ${what}`, advice, { cause });
}
