/**
 * How many characters of texts a program looks at: one by one, or by a search. Counting is exact where a stopwatch is
 * not.
 */
export function looksOf(program: () => void): number {
  let looks = 0;
  const restore = [
    replaced('charCodeAt', () => (looks += 1)),
    replaced('indexOf', (text, found) => (looks += Number(found) < 0 ? text.length : Number(found) + 1)),
    replaced(
      'lastIndexOf',
      (text, found, [, from]) => (looks += Number(from ?? text.length) - Number(found)),
    ),
    replaced('includes', (text) => (looks += text.length)),
  ];
  try {
    program();
  } finally {
    for (const undo of restore) undo();
  }
  return looks;
}

type Count = (text: string, result: unknown, parameters: readonly unknown[]) => void;

/** A method of all strings that tells about every call, until it is restored. (A spy would also keep every call.) */
function replaced(name: 'charCodeAt' | 'indexOf' | 'lastIndexOf' | 'includes', count: Count): () => void {
  const descriptor = Object.getOwnPropertyDescriptor(String.prototype, name);
  if (descriptor === undefined) throw new Error(`there is no ${name}`);
  const original = descriptor.value as (...parameters: readonly unknown[]) => unknown;
  // oxlint-disable-next-line no-extend-native -- counted while one synchronous call runs, then restored
  Object.defineProperty(String.prototype, name, {
    ...descriptor,
    value: function counted(this: string, ...parameters: readonly unknown[]): unknown {
      const result = Reflect.apply(original, this, parameters);
      count(this, result, parameters);
      return result;
    },
  });
  // oxlint-disable-next-line no-extend-native -- this restores it
  return () => void Object.defineProperty(String.prototype, name, descriptor);
}
