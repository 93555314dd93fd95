/** Characters that break a line, move the cursor or turn the direction of a text. */
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const PLAIN = /^[\u0020-\u007e]*$/;

/** A text that a client chose, for a log: on one line, harmless to a terminal, and bounded. */
export function loggable(text: string, maxLength = 256): string {
  if (text.length <= maxLength) return PLAIN.test(text) ? text : escaped(text);
  return `${escaped(text.slice(0, maxLength))}... (${text.length} characters)`;
}

/** A line of JSON that means the same, without characters that a terminal could take for its own. */
export function harmlessLine(line: string): string {
  const body = line.slice(0, -1);
  return PLAIN.test(body) ? line : `${escaped(body)}\n`;
}

/** JSON that shows its control characters as they are escaped, when it is parsed and printed; stacks keep their lines. */
export function doublyEscaped(line: string): string {
  return line.replaceAll(/\\(?:u[\da-f]{4}|n {4}at |[bfnrt\\"])/gi, (escape) =>
    /^\\(?:["\\]|n )/.test(escape) ? escape : `\\${escape}`,
  );
}

function escaped(text: string): string {
  return text.replaceAll(
    UNSAFE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
