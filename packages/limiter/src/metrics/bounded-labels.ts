/** What stands for everything past the bounds. */
const OTHER_LABEL = 'other';
const MAX_LABEL_LENGTH = 128;

/**
 * The values of one label: the first `max` as they are, every later one and every long one as `other`. A program that
 * makes up names as it goes would otherwise fill the memory of the metrics backend.
 */
export class BoundedLabels {
  private readonly max: number;
  private readonly maxLength: number;
  private readonly known = new Set<string>();

  constructor(max: number, maxLength: number = MAX_LABEL_LENGTH) {
    this.max = max;
    this.maxLength = maxLength;
  }

  of(value: string): string {
    if (this.known.has(value)) return value;
    if (this.known.size >= this.max || value.length > this.maxLength) return OTHER_LABEL;
    this.known.add(value);
    return value;
  }
}
