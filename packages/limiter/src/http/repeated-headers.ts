// Most clients have most of their quota left, so the same few headers are told again and again. Those that were told
// last are kept: what a server checks and writes is then one flat text that is there already, and not a new one made of
// parts.

export type HeaderPair = readonly [name: string, value: string];

/** Kept per header; a new one takes the place of another. A power of two. */
const REMEMBERED = 256;

interface Told {
  readonly value: number;
  readonly pair: HeaderPair;
}

/** A header whose value is a number. */
export class NumberHeader {
  private readonly name: string;
  private readonly told: (Told | undefined)[] = Array.from({ length: REMEMBERED });

  constructor(name: string) {
    this.name = name;
  }

  with(value: number): HeaderPair {
    const place = value & (REMEMBERED - 1);
    const before = this.told[place];
    if (before?.value === value) return before.pair;
    const pair: HeaderPair = [this.name, String(value)];
    this.told[place] = { value, pair };
    return pair;
  }
}

interface ToldOf<Subject> {
  readonly subject: Subject;
  readonly remaining: number;
  readonly seconds: number;
  readonly pair: HeaderPair;
}

/** A header that says of something how much is left, and for how many seconds. */
export class QuotaHeader<Subject> {
  private readonly spell: (subject: Subject, remaining: number, seconds: number) => HeaderPair;
  private readonly told: (ToldOf<Subject> | undefined)[] = Array.from({ length: REMEMBERED });

  constructor(spell: (subject: Subject, remaining: number, seconds: number) => HeaderPair) {
    this.spell = spell;
  }

  with(subject: Subject, remaining: number, seconds: number): HeaderPair {
    // An odd factor, so that neither of the two alone decides about the place.
    const place = (remaining + seconds * 37) & (REMEMBERED - 1);
    const before = this.told[place];
    if (before?.subject === subject && before.remaining === remaining && before.seconds === seconds) {
      return before.pair;
    }
    const pair = this.spell(subject, remaining, seconds);
    this.told[place] = { subject, remaining, seconds, pair };
    return pair;
  }
}
