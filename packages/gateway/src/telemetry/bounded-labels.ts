const OTHER_LABEL = 'other';
const MAX_LABEL_LENGTH = 256;

/** The values of one label: the first `max` as they are, every later one as `other`. */
export class BoundedLabels {
  private readonly max: number;
  private readonly known = new Set<string>();

  constructor(max: number) {
    this.max = max;
  }

  of(value: string): string {
    if (this.known.has(value)) return value;
    if (this.known.size >= this.max || value.length > MAX_LABEL_LENGTH) return OTHER_LABEL;
    this.known.add(value);
    return value;
  }
}
