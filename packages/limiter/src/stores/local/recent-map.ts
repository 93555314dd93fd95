/** A map that forgets what was not used lately once it holds `max` entries. */
export class RecentMap<Value> {
  private readonly max: number;
  /** Two generations: what is not found in the younger before that is full is forgotten with the older. */
  private younger = new Map<string, Value>();
  private older = new Map<string, Value>();

  constructor(max: number) {
    this.max = max;
  }

  get(name: string): Value | undefined {
    const young = this.younger.get(name);
    if (young !== undefined) return young;
    const old = this.older.get(name);
    if (old !== undefined) this.set(name, old);
    return old;
  }

  set(name: string, value: Value): void {
    if (this.younger.size >= this.max / 2) {
      this.older = this.younger;
      this.younger = new Map();
    }
    this.older.delete(name);
    this.younger.set(name, value);
  }

  delete(name: string): void {
    this.younger.delete(name);
    this.older.delete(name);
  }

  values(): readonly Value[] {
    return [...this.younger.values(), ...this.older.values()];
  }

  clear(): void {
    this.younger.clear();
    this.older.clear();
  }
}
