import { ServiceFailure } from './service/service.ts';

/** Answers are flat; what nests deeper is not an answer. */
const MAX_DEPTH = 8;

/** JSON without its traps: valid UTF-8 without BOM, no name twice, no `__proto__`, not deep. */
export function parseStrictJson(body: Uint8Array): unknown {
  const text = decoded(body);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ServiceFailure('invalid', 'the answer is not JSON', { cause });
  }
  const problem = jsonTrap(text);
  if (problem !== undefined) throw new ServiceFailure('invalid', `the answer ${problem}`);
  return value;
}

function decoded(body: Uint8Array): string {
  try {
    // With ignoreBOM a BOM stays in the text, where JSON does not allow it.
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
  } catch (cause) {
    throw new ServiceFailure('invalid', 'the answer is not UTF-8', { cause });
  }
}

const TOKEN = /"(?:[^"\\]|\\.)*"(\s*:)?|[{}[\]]/g;

/** What JSON.parse lets pass. The text is valid JSON, so strings and brackets are all that has to be told apart. */
export function jsonTrap(text: string): string | undefined {
  const names: Set<string>[] = [];
  for (const [token, colon] of text.matchAll(TOKEN)) {
    if (token === '{' || token === '[') {
      names.push(new Set());
      if (names.length > MAX_DEPTH) return `nests deeper than ${MAX_DEPTH}`;
    } else if (token === '}' || token === ']') {
      names.pop();
    } else if (colon !== undefined) {
      // As it reads, not as it is written: "\u0061" is "a".
      const name = String(JSON.parse(token.slice(0, -colon.length)));
      if (name === '__proto__') return 'has a field "__proto__"';
      if (names.at(-1)?.has(name) === true) return `has the field ${JSON.stringify(name.slice(0, 64))} twice`;
      names.at(-1)?.add(name);
    }
  }
  return undefined;
}
