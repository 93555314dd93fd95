import type { HeaderFields } from '../../rules/request-facts.ts';

/** The headers of a message with their names in lower case, so that they are folded only once. */
export class HeaderList implements HeaderFields {
  readonly raw: readonly string[];
  /** The lower-case name of the header at `raw[2 * i]`. */
  readonly names: readonly string[];

  constructor(raw: readonly string[]) {
    const names: string[] = [];
    for (let at = 0; at < raw.length; at += 2) names.push((raw[at] ?? '').toLowerCase());
    this.raw = raw;
    this.names = names;
  }

  lines(name: string): readonly string[] {
    let at = this.names.indexOf(name);
    if (at === -1) return NONE;
    const found: string[] = [];
    for (; at !== -1; at = this.names.indexOf(name, at + 1)) found.push(this.raw[2 * at + 1] ?? '');
    return found;
  }

  has(name: string): boolean {
    return this.names.includes(name);
  }

  first(name: string): string | undefined {
    const at = this.names.indexOf(name);
    return at === -1 ? undefined : this.raw[2 * at + 1];
  }

  /** The members of a header that is a list, in lower case and without parameters. */
  tokens(name: string): readonly string[] {
    return this.has(name) ? this.lines(name).flatMap(tokensOf) : NONE;
  }

  /** What the header block takes on the wire of HTTP/1.1: `Name: value\r\n`. */
  bytes(): number {
    let bytes = 0;
    for (let at = 0; at < this.raw.length; at += 1) bytes += (this.raw[at] ?? '').length + 2;
    return bytes;
  }
}

const NONE: readonly string[] = [];

function tokensOf(line: string): readonly string[] {
  return line
    .toLowerCase()
    .split(',')
    .map((member) => member.split(';', 1)[0]?.trim() ?? '')
    .filter((member) => member !== '');
}
