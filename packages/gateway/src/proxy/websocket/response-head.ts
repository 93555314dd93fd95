import { STATUS_CODES } from 'node:http';

/** The head of a response; names and values by turns. */
export function headText(status: number, headers: readonly string[]): string {
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`;
  if (!headers.some((name, at) => at % 2 === 0 && name.toLowerCase() === 'date')) {
    text += `Date: ${new Date().toUTCString()}\r\n`;
  }
  for (let at = 0; at + 1 < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return `${text}\r\n`;
}

const OF_ONE_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** What of the upstream's headers the client gets: all but those of one hop, the ones that `Connection` names included. */
export function endToEndHeaders(rawHeaders: readonly string[]): string[] {
  const dropped = new Set(OF_ONE_HOP);
  for (const [name, value] of pairsOf(rawHeaders)) {
    if (name.toLowerCase() !== 'connection') continue;
    for (const token of value.split(',')) dropped.add(token.trim().toLowerCase());
  }
  return pairsOf(rawHeaders)
    .filter(([name]) => !dropped.has(name.toLowerCase()))
    .flat();
}

export function pairsOf(rawHeaders: readonly string[]): readonly (readonly [string, string])[] {
  const pairs: (readonly [string, string])[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    pairs.push([rawHeaders[at] ?? '', rawHeaders[at + 1] ?? '']);
  }
  return pairs;
}
