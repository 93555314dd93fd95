import type { HeaderPair } from 'spillgate/http';
import type { IdentityConfig } from '../config/schema/identity.ts';
import type { ClientCertificate, Identity } from './identity.ts';

/** What is known of whoever is asking. */
export interface KnownClient {
  readonly identity?: Identity | undefined;
  readonly certificate?: ClientCertificate | undefined;
}

/** Visible ASCII but for the percent sign, which marks what is not. */
const UNSAFE = /[^!-$&-~]/gu;

/** The headers that tell a backend who is asking. */
export function identityHeaders(
  names: IdentityConfig['headers'],
  { identity, certificate }: KnownClient,
): readonly HeaderPair[] {
  const headers: HeaderPair[] = [];
  const add = (name: string, value: string | undefined): void => {
    if (value !== undefined) headers.push([name, value.replaceAll(UNSAFE, percentEncoded)]);
  };
  add(names.key_name, identity?.apiKey?.name);
  add(names.plan, identity?.apiKey?.plan);
  add(names.subject, identity?.token?.claims.get('sub'));
  add(names.certificate, certificate?.fingerprint);
  return headers;
}

/** Never throws, unlike `encodeURIComponent`: half a surrogate becomes the replacement character. */
function percentEncoded(character: string): string {
  return [...Buffer.from(character, 'utf8')]
    .map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`)
    .join('');
}
