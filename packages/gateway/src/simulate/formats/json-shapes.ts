// Lines of one log have the same fields in the same order. What no two lines had otherwise is compared at once, and
// only the values between are looked at.
import { numberEnd, ODD } from './json-numbers.ts';
import { textEnd } from './json-texts.ts';
import { wordsOf, WordsOfText } from './line-words.ts';

/** What stands in a field; null is nothing. */
export const FIELD = { absent: 0, nothing: 1, text: 2, number: 3, object: 4, other: 5 } as const;

export interface FoundField {
  /** The text of an earlier line: most likely it comes again. */
  last: string;
  kind: number;
  from: number;
  to: number;
}

/** A value of a line; a text is without its quotes. */
export interface ScannedValue {
  readonly kind: number;
  readonly from: number;
  readonly to: number;
  /** Where somebody wants to know it. */
  readonly field: FoundField | undefined;
}

interface WantedValue extends ScannedValue {
  readonly field: FoundField;
}

/** A stretch that is the same in all lines, and the value that follows it. */
interface Piece {
  readonly text: WordsOfText;
  /** What is wanted of it, with places within the stretch. */
  readonly constants: readonly WantedValue[] | undefined;
  /** Undefined after the last. */
  readonly value: ScannedValue | undefined;
}

/** Lines that differ in nothing but some texts and numbers. */
class JsonShape {
  /** The line without its texts and numbers. */
  readonly structure: string;
  private readonly line: Buffer;
  private readonly values: readonly ScannedValue[];
  private readonly changing = new Set<number>();
  private pieces: readonly Piece[];

  constructor(structure: string, line: Buffer, values: readonly ScannedValue[]) {
    this.structure = structure;
    this.line = line;
    this.values = values;
    this.pieces = this.cut();
  }

  /** Whether this line is such a line: then the fields are its own. */
  fits(bytes: Buffer, from: number, to: number): boolean {
    const words = wordsOf(bytes);
    let at = from;
    for (const { text, constants, value } of this.pieces) {
      const start = at;
      at += text.length;
      if (at > to || !text.isAt(words, start)) return false;
      if (constants !== undefined) noteAll(constants, start);
      if (value === undefined) return at === to;
      const { kind, field } = value;
      const end =
        kind === FIELD.number ? numberEnd(bytes, at, to) : textEnd(bytes, at, to, field === undefined);
      if (end === ODD) return false;
      if (field !== undefined) {
        field.kind = kind;
        field.from = at;
        field.to = kind === FIELD.number ? end : end - 1;
      }
      at = end;
    }
    return false;
  }

  /** Another line of the same structure: its values may be others. */
  widen(line: Buffer, values: readonly ScannedValue[]): void {
    for (const [at, { kind, from, to }] of values.entries()) {
      const own = this.values[at];
      if (own === undefined || !isScalar(kind)) continue;
      if (line.compare(this.line, own.from, own.to, from, to) !== 0) this.changing.add(at);
    }
    this.pieces = this.cut();
  }

  private cut(): readonly Piece[] {
    const pieces: Piece[] = [];
    let constants: WantedValue[] | undefined;
    let start = 0;
    const end = (to: number, value: ScannedValue | undefined): void => {
      pieces.push({ text: new WordsOfText(this.line.subarray(start, to)), constants, value });
      constants = undefined;
    };
    for (const [at, value] of this.values.entries()) {
      const { kind, from, to, field } = value;
      if (this.changing.has(at)) {
        end(from, value);
        start = kind === FIELD.text ? to + 1 : to;
      } else if (field !== undefined)
        (constants ??= []).push({ kind, field, from: from - start, to: to - start });
    }
    end(this.line.length, undefined);
    return pieces;
  }
}

function noteAll(constants: readonly WantedValue[], start: number): void {
  for (let at = 0; at < constants.length; at += 1) {
    const constant = constants[at];
    if (constant === undefined) return;
    const { field, kind, from, to } = constant;
    field.kind = kind;
    field.from = start + from;
    field.to = start + to;
  }
}

function isScalar(kind: number): boolean {
  return kind === FIELD.text || kind === FIELD.number;
}

const MAX_SHAPES = 8;
/** So many lines are learned from at once; later, one of so many that fit no shape. */
const LEARNED_AT_ONCE = 200;
const STRANGERS_PER_LESSON = 16;

/** The shapes of the lines of a log, those first that came last. */
export class JsonShapes {
  private readonly shapes: JsonShape[] = [];
  private strangers = 0;

  /** Whether the line has a shape that is known: then the fields are its own. */
  fit(bytes: Buffer, from: number, to: number): boolean {
    for (const [at, shape] of this.shapes.entries()) {
      if (!shape.fits(bytes, from, to)) continue;
      if (at > 0) this.toFront(at, shape);
      return true;
    }
    return false;
  }

  /** Whether to learn from a line that fits none. */
  wantsLesson(): boolean {
    this.strangers += 1;
    return this.strangers <= LEARNED_AT_ONCE || this.strangers % STRANGERS_PER_LESSON === 0;
  }

  /** From a line of JSON, and all of its values in their order. */
  learn(line: Buffer, values: readonly ScannedValue[]): void {
    const structure = structureOf(line, values);
    const at = this.shapes.findIndex((shape) => shape.structure === structure);
    const known = this.shapes[at];
    if (known === undefined) {
      if (this.shapes.length >= MAX_SHAPES) this.shapes.pop();
      this.shapes.unshift(new JsonShape(structure, Buffer.from(line), values));
    } else {
      known.widen(line, values);
      this.toFront(at, known);
    }
  }

  private toFront(at: number, shape: JsonShape): void {
    this.shapes.splice(at, 1);
    this.shapes.unshift(shape);
  }
}

function structureOf(line: Buffer, values: readonly ScannedValue[]): string {
  let structure = '';
  let start = 0;
  for (const { kind, from, to } of values) {
    if (!isScalar(kind)) continue;
    structure += `${line.toString('latin1', start, from)}${kind === FIELD.text ? '' : '0'}`;
    start = to;
  }
  return structure + line.toString('latin1', start);
}
