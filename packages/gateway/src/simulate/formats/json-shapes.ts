// Lines of one log are alike: the same fields in the same order. What the first line looks like becomes a regular
// expression, which reads the next ones several times sooner than they can be parsed. It matches nothing but JSON with
// these very fields; every other line is parsed.

/** A text as JSON has it, escapes included. Unrolled, so that a mismatch is found in one pass. */
const WITHIN_TEXT = String.raw`[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[\da-fA-F]{4})[^"\\\x00-\x1f]*)*`;
const TEXT = `"${WITHIN_TEXT}"`;
const OTHER_SCALAR = String.raw`-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null`;
const SCALAR = `${TEXT}|${OTHER_SCALAR}`;
/** One group for a text, one for anything else. */
const CAPTURED = `(?:"(${WITHIN_TEXT})"|(${OTHER_SCALAR}))`;
const LIST = String.raw`\[(?:(?:${SCALAR})(?:,(?:${SCALAR}))*)?\]`;
/** Such as the headers of a request: names differ from line to line, and are not part of a shape. */
const LISTS = String.raw`\{(?:${TEXT}:${LIST}(?:,${TEXT}:${LIST})*)?\}`;

/** More than a program writes; a log of ever new shapes is parsed. */
const MAX_SHAPES = 16;
/** So many more lines may fit no shape than fit one. */
const MAX_MISSES = 1000;
const MAX_PATTERN_LENGTH = 16_000;
const MAX_DEPTH = 8;
const BRACE = 0x7b;
const BRACKET = 0x5b;
const BACKSLASH = '\\';

interface LineShape {
  readonly pattern: RegExp;
  /** For each wanted field the first of its two groups, or one of the two below. */
  readonly places: readonly number[];
}

const ABSENT = 0;
const AN_OBJECT = -1;

/** Stands for an object of which nothing else is asked. */
const SOME_OBJECT: object = Object.freeze({});

/** Reads some fields out of lines of JSON, exactly as `JSON.parse` does. */
export class JsonShapes {
  private readonly wanted: readonly string[];
  private shapes: LineShape[] = [];
  private learned = 0;
  private misses = 0;

  /** The names of the fields; `request.method` stands within the object `request`. */
  constructor(wanted: readonly string[]) {
    this.wanted = wanted;
  }

  /** The values in the order of their names; undefined for a line that is no JSON object. */
  read(line: string): readonly unknown[] | undefined {
    if (line.charCodeAt(0) !== BRACE) return undefined;
    const { shapes } = this;
    for (let at = 0; at < shapes.length; at += 1) {
      const shape = shapes[at];
      const found = shape?.pattern.exec(line);
      if (shape === undefined || found === null || found === undefined) continue;
      if (at > 0) shapes.unshift(...shapes.splice(at, 1));
      if (this.misses > 0) this.misses -= 1;
      return valuesIn(found, shape.places);
    }
    return this.parsed(line);
  }

  private parsed(line: string): readonly unknown[] | undefined {
    const parsed = parsedObject(line);
    if (parsed === undefined) return undefined;
    this.learn(line);
    return this.wanted.map((path) => fieldAt(parsed, path));
  }

  private learn(line: string): void {
    this.misses += 1;
    if (this.misses > MAX_MISSES) this.shapes = [];
    if (this.learned >= MAX_SHAPES) return;
    const shape = new ShapeOfLine(line, this.wanted).shape();
    if (shape === undefined) return;
    this.learned += 1;
    this.shapes.unshift(shape);
  }
}

/** Undefined for what is no JSON, and for what is no object. */
export function parsedObject(line: string): object | undefined {
  try {
    const parsed: unknown = JSON.parse(line);
    return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/** Undefined if it is not there. */
export function fieldAt(parsed: object, path: string): unknown {
  let value: unknown = parsed;
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    value = Reflect.get(value, name);
  }
  return value;
}

function valuesIn(found: RegExpExecArray, places: readonly number[]): readonly unknown[] {
  const values: unknown[] = [];
  for (const place of places) {
    if (place > 0) values.push(scalarOf(found[place], found[place + 1]));
    else values.push(place === ABSENT ? undefined : SOME_OBJECT);
  }
  return values;
}

function scalarOf(text: string | undefined, other: string | undefined): unknown {
  if (text === undefined) return otherScalarOf(other ?? '');
  return text.includes(BACKSLASH) ? JSON.parse(`"${text}"`) : text;
}

function otherScalarOf(text: string): unknown {
  if (text === 'null') return null;
  return text === 'true' || (text === 'false' ? false : Number(text));
}

const KNOWN_TEXT = new RegExp(TEXT, 'y');
const KNOWN_SCALAR = new RegExp(SCALAR, 'y');
const KNOWN_LIST = new RegExp(LIST, 'y');
const KNOWN_LISTS = new RegExp(LISTS, 'y');
const SPACE = /[ \t\r\n]*/y;

class TooOdd extends Error {}

/** Walks through a line that is a JSON object, and writes down what others like it look like. */
class ShapeOfLine {
  private readonly line: string;
  private readonly wanted: readonly string[];
  private readonly places: number[];
  private groups = 0;
  private at = 0;
  private source = '';

  constructor(line: string, wanted: readonly string[]) {
    this.line = line;
    this.wanted = wanted;
    this.places = wanted.map(() => ABSENT);
  }

  /** Undefined for a line of an odd shape. */
  shape(): LineShape | undefined {
    try {
      this.object('', 0);
      this.space();
    } catch (failure) {
      if (failure instanceof TooOdd) return undefined;
      throw failure;
    }
    if (this.at !== this.line.length || this.source.length > MAX_PATTERN_LENGTH) return undefined;
    return { pattern: new RegExp(`^${this.source}$`), places: this.places };
  }

  private object(within: string, depth: number): void {
    if (depth > MAX_DEPTH) throw new TooOdd();
    const names = new Set<string>();
    this.literal('{');
    this.space();
    while (this.line[this.at] !== '}') {
      if (names.size > 0) this.comma();
      const name = this.name();
      // The last of two fields with the same name counts.
      if (names.has(name)) throw new TooOdd();
      names.add(name);
      this.space();
      this.literal(':');
      this.space();
      this.value(`${within}${name}`, depth);
      this.space();
    }
    this.literal('}');
  }

  private comma(): void {
    this.literal(',');
    this.space();
  }

  private name(): string {
    const text = this.text(KNOWN_TEXT);
    if (text.includes(BACKSLASH) || text.includes('.')) throw new TooOdd();
    this.source += escaped(text);
    return text.slice(1, -1);
  }

  private value(path: string, depth: number): void {
    const wantedAt = this.wanted.indexOf(path);
    const first = this.line.charCodeAt(this.at);
    if (first === BRACE) this.objectAt(path, wantedAt, depth);
    else if (first === BRACKET) {
      if (wantedAt !== -1) throw new TooOdd();
      this.text(KNOWN_LIST);
      this.source += LIST;
    } else {
      this.text(KNOWN_SCALAR);
      this.source += wantedAt === -1 ? `(?:${SCALAR})` : CAPTURED;
      if (wantedAt === -1) return;
      this.places[wantedAt] = this.groups + 1;
      this.groups += 2;
    }
  }

  private objectAt(path: string, wantedAt: number, depth: number): void {
    if (wantedAt !== -1) this.places[wantedAt] = AN_OBJECT;
    const isAsked = this.wanted.some((other) => other.startsWith(`${path}.`));
    const lists = isAsked ? undefined : this.next(KNOWN_LISTS);
    if (lists === undefined) {
      this.object(`${path}.`, depth + 1);
      return;
    }
    this.at += lists.length;
    this.source += LISTS;
  }

  private literal(character: string): void {
    if (this.line[this.at] !== character) throw new TooOdd();
    this.at += 1;
    this.source += escaped(character);
  }

  private space(): void {
    this.source += this.text(SPACE);
  }

  private text(pattern: RegExp): string {
    const found = this.next(pattern);
    if (found === undefined) throw new TooOdd();
    this.at += found.length;
    return found;
  }

  private next(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    return pattern.exec(this.line)?.[0];
  }
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\/-]/g, String.raw`\$&`);
}
