/** A larger difference than this is not a typing error. */
const MAX_DISTANCE = 3;
const MAX_WORD_LENGTH = 64;
/** Fewer letters begin many words. */
const MIN_BEGINNING = 4;

/** The candidate that was probably meant: the same letters in another spelling, or the one with the fewest slips. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  if (word.length > MAX_WORD_LENGTH) return undefined;
  const same = candidates.find((candidate) => letters(candidate) === letters(word));
  if (same !== undefined) return same;
  const longer = candidates.filter((candidate) => letters(candidate).startsWith(letters(word)));
  if (longer.length === 1 && letters(word).length >= MIN_BEGINNING) return longer[0];

  const allowed = Math.min(MAX_DISTANCE, Math.floor(word.length / 3));
  let best: { readonly candidate: string; readonly distance: number } | undefined;
  for (const candidate of candidates) {
    const distance = slips(letters(word), letters(candidate));
    if (distance <= allowed && distance < (best?.distance ?? Number.POSITIVE_INFINITY)) {
      best = { candidate, distance };
    }
  }
  return best?.candidate;
}

/** `keyStrategy`, `key-strategy` and `KEY_STRATEGY` are one word. */
function letters(word: string): string {
  return word.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
}

/** Letters added, dropped, changed, or swapped with their neighbour (optimal string alignment). */
function slips(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const changed = from[row - 1] === to[column - 1] ? 0 : 1;
      const swapped =
        row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      current.push(
        Math.min(
          (last[column] ?? 0) + 1,
          (current[column - 1] ?? 0) + 1,
          (last[column - 1] ?? 0) + changed,
          swapped ? (beforeLast[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
        ),
      );
    }
    beforeLast = last;
    last = current;
  }
  return last[to.length] ?? 0;
}
