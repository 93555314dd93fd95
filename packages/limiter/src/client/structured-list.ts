// Reads a List of Items (RFC 9651 §4.2), the only kind of Structured Field that rate limit headers are. Strict:
// whatever the grammar does not allow makes the whole field unreadable, and the answer is undefined. Inner lists are
// not read either: no rate limit header has one.

export type BareItem =
  | { readonly type: 'integer' | 'decimal' | 'date'; readonly value: number }
  /** Of bytes, `value` is the Base64 as it came. */
  | { readonly type: 'string' | 'token' | 'bytes' | 'displayString'; readonly value: string }
  | { readonly type: 'boolean'; readonly value: boolean };

export interface ListItem {
  readonly item: BareItem;
  readonly parameters: ReadonlyMap<string, BareItem>;
}

/** More than any server has to say; what is longer is not read at all. */
export const MAX_FIELD_LENGTH = 8192;
const MAX_ITEMS = 32;

/** The items of a field, or undefined when it is not a well-formed list. */
export function parseItemList(field: string): readonly ListItem[] | undefined {
  if (field.length > MAX_FIELD_LENGTH) return undefined;
  const cursor = new Cursor(field);
  cursor.skip(SPACES);
  const items: ListItem[] = [];
  while (!cursor.atEnd()) {
    const item = readItem(cursor);
    if (item === undefined || items.length === MAX_ITEMS) return undefined;
    items.push(item);
    cursor.skip(OPTIONAL_WHITESPACE);
    if (cursor.atEnd()) return items;
    if (cursor.take(COMMA) === undefined || cursor.atEnd()) return undefined;
  }
  return items;
}

const SPACES = / */y;
const OPTIONAL_WHITESPACE = /[ \t]*/y;
/** With the whitespace after it: a comma at the end is an error. */
const COMMA = /,[ \t]*/y;
const PARAMETER = /; *([a-z*][a-z\d_.*-]*)(=?)/y;

/** A text and how far it has been read. */
class Cursor {
  private readonly text: string;
  private at = 0;

  constructor(text: string) {
    this.text = text;
  }

  atEnd(): boolean {
    return this.at === this.text.length;
  }

  /** What a sticky pattern finds right here, and goes past it. */
  take(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.text);
    if (match === null) return undefined;
    this.at += match[0].length;
    return match;
  }

  skip(pattern: RegExp): void {
    this.take(pattern);
  }
}

function readItem(cursor: Cursor): ListItem | undefined {
  const item = readBareItem(cursor);
  if (item === undefined) return undefined;
  const parameters = new Map<string, BareItem>();
  for (;;) {
    const match = cursor.take(PARAMETER);
    // What else stands here, such as a semicolon without a key, is not a comma and fails there.
    if (match === undefined) return { item, parameters };
    const [, key = '', equals] = match;
    const value = equals === '=' ? readBareItem(cursor) : TRUE;
    if (value === undefined) return undefined;
    parameters.set(key, value);
  }
}

const TRUE: BareItem = { type: 'boolean', value: true };

/**
 * One pattern per type; a longer one comes before what it starts with. Too many digits need no rule of their own: the
 * rest of them is nothing that may follow an item.
 */
const BARE_ITEMS: readonly [pattern: RegExp, read: (text: string) => BareItem | undefined][] = [
  [/-?\d{1,12}\.\d{1,3}/y, (text) => ({ type: 'decimal', value: Number(text) })],
  [/-?\d{1,15}/y, (text) => ({ type: 'integer', value: Number(text) })],
  [/"(?:[ !#-[\]-~]|\\["\\])*"/y, (text) => ({ type: 'string', value: unquoted(text) })],
  [/[A-Za-z*][\w!#$%&'*+.^`|~:/-]*/y, (text) => ({ type: 'token', value: text })],
  [/:[A-Za-z\d+/=]*:/y, readBytes],
  [/\?[01]/y, (text) => ({ type: 'boolean', value: text === '?1' })],
  [/@-?\d{1,15}/y, (text) => ({ type: 'date', value: Number(text.slice(1)) })],
  [/%"(?:[ !#$&-~]|%[\da-f]{2})*"/y, readDisplayString],
];

function readBareItem(cursor: Cursor): BareItem | undefined {
  for (const [pattern, read] of BARE_ITEMS) {
    const match = cursor.take(pattern);
    if (match !== undefined) return read(match[0]);
  }
  return undefined;
}

function unquoted(text: string): string {
  return text.slice(1, -1).replaceAll(/\\(.)/g, '$1');
}

function readBytes(text: string): BareItem | undefined {
  const value = text.slice(1, -1);
  try {
    atob(value);
    return { type: 'bytes', value };
  } catch {
    return undefined;
  }
}

function readDisplayString(text: string): BareItem | undefined {
  try {
    return { type: 'displayString', value: decodeURIComponent(text.slice(2, -1)) };
  } catch {
    return undefined;
  }
}
