import { serviceAt, type ClientTls, type ResolveAll } from '../../http-client/index.ts';

export interface KeySetRequest {
  readonly url: string;
  readonly timeoutMs: number;
  readonly tls: ClientTls;
  /** Which addresses must not be dialled. */
  readonly refusesAddress: (address: string) => boolean;
  /** Left out: the system's resolver. */
  readonly resolve?: ResolveAll | undefined;
}

const MAX_BYTES = 256 * 1024;

/** Gets the text of a JWK Set: one connection, one answer, no redirects, since they lead where nobody has checked. */
export async function fetchKeySet(request: KeySetRequest, signal: AbortSignal): Promise<string> {
  const { url, ...dialling } = request;
  const service = serviceAt(url, { ...dialling, maxConnections: 1 });
  try {
    const response = await service.fetch({
      method: 'GET',
      headers: ['accept', 'application/jwk-set+json, application/json'],
      maxBodyBytes: (status) => (status === 200 ? MAX_BYTES : 0),
      signal,
    });
    if (response.status !== 200) throw new Error(`the URL answered ${response.status}`);
    if (response.truncated) throw new Error(`the answer has more than ${MAX_BYTES} bytes`);
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(response.body);
  } finally {
    await service.close();
  }
}
