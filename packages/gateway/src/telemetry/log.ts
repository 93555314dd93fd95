/** What the parts of the gateway need of a logger; pino's fits. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/**
 * One thing that goes wrong many times in a row: said the first time, then at most once per interval with how often it
 * was not said.
 */
export class ThrottledWarning {
  private readonly log: Pick<Log, 'warn'>;
  private readonly message: string;
  private readonly quietMs: number;
  private saidAtMs = -Infinity;
  private unsaid = 0;

  constructor(log: Pick<Log, 'warn'>, message: string, quietMs = 10_000) {
    this.log = log;
    this.message = message;
    this.quietMs = quietMs;
  }

  warn(fields: object): void {
    const nowMs = performance.now();
    if (nowMs - this.saidAtMs < this.quietMs) {
      this.unsaid += 1;
      return;
    }
    this.log.warn({ ...fields, unsaid: this.unsaid }, this.message);
    this.saidAtMs = nowMs;
    this.unsaid = 0;
  }
}

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

/**
 * JSON that shows its control characters as they are escaped, when it is parsed and printed; stacks keep their lines.
 */
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
