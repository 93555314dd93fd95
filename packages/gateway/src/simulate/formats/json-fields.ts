// Reads some fields out of the bytes of a line, several times sooner than the line can be parsed, and never otherwise
// than JSON.parse would: whatever is not quite plain is left to it.
import { addressAt } from './addresses.ts';
import { asciiTextLike, isAt } from './interned-texts.ts';
import { isNumberStart, numberAt, numberEnd, ODD } from './json-numbers.ts';
import { FIELD, JsonShapes, type FoundField, type ScannedValue } from './json-shapes.ts';
import { textEnd } from './json-texts.ts';
import { inMilliseconds, momentAt } from './moments.ts';
import { numberOf, type LoggedFields } from './parsed-fields.ts';

const MAX_DEPTH = 8;
const [TAB, RETURN, SPACE, QUOTE, COMMA, MINUS] = [0x09, 0x0d, 0x20, 0x22, 0x2c, 0x2d];
const [COLON, OPEN_LIST, BACKSLASH, CLOSE_LIST, OPEN, CLOSE] = [0x3a, 0x5b, 0x5c, 0x5d, 0x7b, 0x7d];
const [FALSE, NULL, TRUE] = [0x66, 0x6e, 0x74];
const HASH_STEP = 31;

/** A field that is wanted, or that has one within. */
interface WantedName {
  readonly name: string;
  /** The place of what is found. */
  readonly place: number;
  readonly within: WantedNames | undefined;
}

/** Finds the fields that are wanted among the others of an object. */
class WantedNames {
  private readonly names: readonly (WantedName | undefined)[];
  private readonly mask: number;

  constructor(names: readonly WantedName[]) {
    let size = 16;
    let places = placesOf(names, size);
    while (new Set(places).size < names.length) places = placesOf(names, (size *= 2));
    const table: (WantedName | undefined)[] = Array.from({ length: size }, () => undefined);
    for (const [at, place] of places.entries()) table[place] = names[at];
    this.names = table;
    this.mask = size - 1;
  }

  find(hash: number, bytes: Buffer, from: number, to: number): WantedName | undefined {
    const found = this.names[hash & this.mask];
    return found !== undefined && isAt(found.name, bytes, from, to) ? found : undefined;
  }
}

/** No two may have the same: a table that is large enough has a place for each. */
function placesOf(names: readonly WantedName[], size: number): readonly number[] {
  return names.map(({ name }) => {
    let hash = 0;
    for (let at = 0; at < name.length; at += 1) hash = nextHash(hash, name.charCodeAt(at));
    return hash & (size - 1);
  });
}

function nextHash(hash: number, byte: number): number {
  return (Math.imul(hash, HASH_STEP) + byte) | 0;
}

/** The fields of one line after another. */
export class JsonFields implements LoggedFields {
  private readonly root: WantedNames;
  private readonly found: FoundField[] = [];
  private bytes: Buffer = Buffer.alloc(0);
  private end = 0;
  private readonly shapes = new JsonShapes();
  /** The values of a line to learn from. */
  private lesson: ScannedValue[] | undefined;

  /** The names of the fields; `request.method` stands within the object `request`. */
  constructor(wanted: readonly string[]) {
    for (const _ of wanted) this.found.push(newField());
    this.root = this.namesOf(wanted, '');
  }

  /** False for a line that has to be parsed; else the fields are those of this line until the next one is scanned. */
  scan(bytes: Buffer, from: number, to: number): boolean {
    if (bytes[from] !== OPEN) return false;
    this.bytes = bytes;
    this.end = to;
    this.clear();
    return this.shapes.fit(bytes, from, to) || this.scanAll(from, to);
  }

  has(place: number): boolean {
    const { kind } = this.found[place] ?? NOTHING;
    return kind !== FIELD.absent && kind !== FIELD.nothing;
  }

  hasObject(place: number): boolean {
    return this.found[place]?.kind === FIELD.object;
  }

  hasText(place: number, text?: string): boolean {
    const { kind, from, to } = this.found[place] ?? NOTHING;
    return kind === FIELD.text && (text === undefined || isAt(text, this.bytes, from, to));
  }

  text(place: number): string | undefined {
    const field = this.found[place] ?? NOTHING;
    const { kind, from, to } = field;
    if (kind !== FIELD.text || isLeftOut(this.bytes, from, to)) return undefined;
    const text = asciiTextLike(field.last, this.bytes, from, to);
    if (text !== undefined) field.last = text;
    return text;
  }

  address(place: number): string | undefined {
    const { kind, from, to } = this.found[place] ?? NOTHING;
    return kind === FIELD.text && !isLeftOut(this.bytes, from, to)
      ? addressAt(this.bytes, from, to)
      : undefined;
  }

  number(place: number): number | undefined {
    const { kind, from, to } = this.found[place] ?? NOTHING;
    if (kind === FIELD.text) return numberOf(this.bytes.toString('latin1', from, to));
    const value = kind === FIELD.number ? numberAt(this.bytes, from, to) : Number.NaN;
    return Number.isFinite(value) ? value : undefined;
  }

  moment(place: number): number | undefined {
    const { kind, from, to } = this.found[place] ?? NOTHING;
    if (kind !== FIELD.text) return inMilliseconds(this.number(place));
    const ms = momentAt(this.bytes, from, to);
    return Number.isFinite(ms) ? ms : undefined;
  }

  /** A line as none was before. */
  private scanAll(from: number, to: number): boolean {
    this.clear();
    this.lesson = this.shapes.wantsLesson() ? [] : undefined;
    const at = this.object(from + 1, this.root, 0);
    if (at === ODD || this.space(at) !== to) return false;
    if (this.lesson !== undefined) {
      const values = this.lesson.map((value) => ({ ...value, from: value.from - from, to: value.to - from }));
      this.shapes.learn(this.bytes.subarray(from, to), values);
    }
    return true;
  }

  private clear(): void {
    for (const field of this.found) field.kind = FIELD.absent;
  }

  private namesOf(wanted: readonly string[], within: string): WantedNames {
    const names = new Set(
      wanted.flatMap((path) => {
        const [name] = path.slice(within.length).split('.');
        return path.startsWith(within) && name !== undefined ? [name] : [];
      }),
    );
    return new WantedNames([...names].map((name) => this.wantedName(wanted, within, name)));
  }

  private wantedName(wanted: readonly string[], within: string, name: string): WantedName {
    const path = `${within}${name}`;
    const isParent = wanted.some((other) => other.startsWith(`${path}.`));
    const listed = wanted.indexOf(path);
    // A parent that nobody asks for is noted as well: it must not come twice.
    const place = listed === -1 ? this.found.push(newField()) - 1 : listed;
    return { name, place, within: isParent ? this.namesOf(wanted, `${path}.`) : undefined };
  }

  /** Each of these returns where what it passes ends, or `ODD`. */
  private object(start: number, names: WantedNames | undefined, depth: number): number {
    const { bytes, end } = this;
    if (depth > MAX_DEPTH) return ODD;
    let at = this.space(start);
    if (bytes[at] === CLOSE) return at + 1;
    for (;;) {
      if (bytes[at] !== QUOTE) return ODD;
      const from = at + 1;
      let hash = 0;
      for (at = from; at < end; at += 1) {
        const byte = bytes[at] ?? 0;
        if (byte === QUOTE) break;
        // Names with escapes, and others than ASCII, could be spelled otherwise.
        if (byte === BACKSLASH || byte < SPACE || byte > 0x7f) return ODD;
        hash = nextHash(hash, byte);
      }
      const wanted = names?.find(hash, bytes, from, at);
      at = this.space(at + 1);
      if (bytes[at] !== COLON) return ODD;
      at = this.space(at + 1);
      at = wanted === undefined ? this.value(at, undefined, depth) : this.wantedValue(at, wanted, depth);
      if (at === ODD) return ODD;
      at = this.space(at);
      if (bytes[at] === CLOSE) return at < end ? at + 1 : ODD;
      if (bytes[at] !== COMMA) return ODD;
      at = this.space(at + 1);
    }
  }

  private wantedValue(at: number, { place, within }: WantedName, depth: number): number {
    const field = this.found[place];
    // The last of two fields with the same name counts.
    if (field === undefined || field.kind !== FIELD.absent) return ODD;
    const first = this.bytes[at] ?? 0;
    const isText = first === QUOTE;
    field.kind = isText ? FIELD.text : kindOf(first);
    field.from = isText ? at + 1 : at;
    field.to = field.from;
    if (field.kind === FIELD.text || field.kind === FIELD.number) {
      const end = isText ? textEnd(this.bytes, at + 1, this.end, false) : numberEnd(this.bytes, at, this.end);
      field.to = isText ? end - 1 : end;
      this.lesson?.push({ kind: field.kind, from: field.from, to: field.to, field });
      return end;
    }
    this.lesson?.push({ kind: field.kind, from: at, to: at, field });
    return this.value(at, within, depth);
  }

  private value(at: number, within: WantedNames | undefined, depth: number): number {
    switch (this.bytes[at]) {
      case QUOTE: {
        const end = textEnd(this.bytes, at + 1, this.end, true);
        this.lesson?.push({ kind: FIELD.text, from: at + 1, to: end - 1, field: undefined });
        return end;
      }
      case OPEN:
        return this.object(at + 1, within, depth + 1);
      case OPEN_LIST:
        return this.list(at + 1, depth + 1);
      case TRUE:
        return this.word(at, 'true');
      case FALSE:
        return this.word(at, 'false');
      case NULL:
        return this.word(at, 'null');
      default: {
        const end = numberEnd(this.bytes, at, this.end);
        this.lesson?.push({ kind: FIELD.number, from: at, to: end, field: undefined });
        return end;
      }
    }
  }

  private list(start: number, depth: number): number {
    if (depth > MAX_DEPTH) return ODD;
    let at = this.space(start);
    if (this.bytes[at] === CLOSE_LIST) return at + 1;
    for (;;) {
      at = this.value(at, undefined, depth);
      if (at === ODD) return ODD;
      at = this.space(at);
      if (this.bytes[at] === CLOSE_LIST) return at + 1;
      if (this.bytes[at] !== COMMA) return ODD;
      at = this.space(at + 1);
    }
  }

  private word(at: number, word: string): number {
    return isAt(word, this.bytes, at, at + word.length) ? at + word.length : ODD;
  }

  private space(start: number): number {
    const { bytes, end } = this;
    let at = start;
    while (at < end && isSpace(bytes[at])) at += 1;
    return at;
  }
}

const NOTHING: FoundField = newField();

function newField(): FoundField {
  return { last: '', kind: FIELD.absent, from: 0, to: 0 };
}

function kindOf(first: number): number {
  if (first === OPEN) return FIELD.object;
  if (first === NULL) return FIELD.nothing;
  return isNumberStart(first) ? FIELD.number : FIELD.other;
}

/** Empty or a dash. */
function isLeftOut(bytes: Buffer, from: number, to: number): boolean {
  return from === to || (to === from + 1 && bytes[from] === MINUS);
}

function isSpace(byte: number | undefined): boolean {
  return byte === SPACE || byte === TAB || byte === RETURN;
}
