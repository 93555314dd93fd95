/** A reproducible source of choices (sfc32): the same seed gives the same program on every machine. */
export class Random {
  readonly seed: number;
  private a: number;
  private b: number;
  private c: number;
  private counter = 1;

  constructor(seed: number) {
    this.seed = seed;
    this.a = seed | 0;
    this.b = Math.floor(seed / 2 ** 32) | 0;
    this.c = 0x9e3779b9 | 0;
    for (let round = 0; round < 15; round += 1) this.bits();
  }

  /** Uniform in [0, 1), all 53 bits. */
  fraction(): number {
    const high = this.bits() >>> 5;
    const low = this.bits() >>> 6;
    return (high * 2 ** 26 + low) / 2 ** 53;
  }

  chance(probability: number): boolean {
    return this.fraction() < probability;
  }

  /** A whole number from `low` to `high`, both included. */
  integer(low: number, high: number): number {
    return low + Math.floor(this.fraction() * (high - low + 1));
  }

  /** A whole number from `low` >= 1 to `high` whose number of digits is what is random. */
  magnitude(low: number, high: number): number {
    const exponent = Math.log(low) + this.fraction() * (Math.log(high) - Math.log(low));
    return Math.min(high, Math.max(low, Math.round(Math.exp(exponent))));
  }

  pick<Item>(items: readonly Item[]): Item {
    const item = items[this.integer(0, items.length - 1)];
    if (item === undefined) throw new Error('cannot pick from an empty list');
    return item;
  }

  private bits(): number {
    const sum = (((this.a + this.b) | 0) + this.counter) | 0;
    this.counter = (this.counter + 1) | 0;
    this.a = this.b ^ (this.b >>> 9);
    this.b = (this.c + (this.c << 3)) | 0;
    this.c = ((this.c << 21) | (this.c >>> 11)) + sum;
    this.c |= 0;
    return sum >>> 0;
  }
}
