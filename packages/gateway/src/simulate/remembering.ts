const MAX_REMEMBERED = 50_000;
/** Longer texts seldom come again. */
const MAX_LENGTH = 256;

/** The same function, with a memory of what it said of texts; when that is full, all is forgotten. */
export function remembering<Value>(work: (text: string) => Value): (text: string) => Value {
  const known = new Map<string, Value>();
  return (text) => {
    const found = known.get(text);
    if (found !== undefined) return found;
    const value = work(text);
    if (text.length > MAX_LENGTH) return value;
    if (known.size >= MAX_REMEMBERED) known.clear();
    known.set(text, value);
    return value;
  };
}

/** The same where most texts are the one that came before. */
export function rememberingLast<Value>(work: (text: string) => Value): (text: string) => Value {
  let last = '';
  let value = work(last);
  return (text) => {
    if (text === last) return value;
    last = text;
    value = work(text);
    return value;
  };
}
