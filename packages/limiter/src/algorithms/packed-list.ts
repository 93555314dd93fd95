// A list in a state: one number, then records of as many numbers each that begin with a moment, in the order of these.

/** The first record later than this; as many as there are where none is. */
export function firstAfter(list: readonly number[], recordNumbers: number, atUs: number): number {
  let low = 0;
  let high = (list.length - 1) / recordNumbers;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if ((list[middle * recordNumbers + 1] ?? 0) > atUs) high = middle;
    else low = middle + 1;
  }
  return low;
}
