import type { SettleConfig } from '../../config/schema/cost.ts';

/** Read in little memory; others need windows of megabytes. */
const READABLE: ReadonlySet<string> = new Set(['gzip', 'deflate', 'identity']);

/**
 * The headers of a request whose response has to be read on its way: of the encodings that the client accepts, the
 * backend is offered those that can be, and none where something may have to be put into the response.
 */
export function withReadableEncodings(headers: string[], settle: SettleConfig): string[] {
  if (settle.type !== 'llmTokens') return headers;
  const kept: string[] = [];
  const accepted: string[] = [];
  for (let at = 0; at < headers.length; at += 2) {
    const [name = '', value = ''] = headers.slice(at, at + 2);
    if (name.toLowerCase() === 'accept-encoding') accepted.push(...value.split(','));
    else kept.push(name, value);
  }
  const readable = accepted.map((each) => each.trim()).filter((each) => READABLE.has(nameOf(each)));
  const offered = settle.cut_off || readable.length === 0 ? 'identity' : readable.join(', ');
  return [...kept, 'accept-encoding', offered];
}

/** `gzip` of `gzip;q=0.8`. */
function nameOf(encoding: string): string {
  return (encoding.split(';')[0] ?? '').trim().toLowerCase();
}
