import { JsonScanner, type JsonListener } from './json-scanner.ts';

/** What a rule wants to know from a body. */
export interface BodyReading {
  /** Texts at its top, by name. */
  readonly names: readonly string[];
  /** So much of it is read before the request is decided. */
  readonly maxBytes: number;
}

/** What the beginning of a body says. */
export interface BodyFacts {
  /** Texts at its top that came once, by name. */
  readonly fields: ReadonlyMap<string, string>;
  /** Names that came more than once, or in another spelling too: servers differ in which of them counts. */
  readonly repeated: ReadonlySet<string>;
  /** How many tokens the request bounds its answer to; undefined if it does not. */
  readonly outputTokens: number | undefined;
  /** Of the whole body, or of what was read where its length is not known. */
  readonly bytes: number;
  /** Why nothing was read, as its sender is told. */
  readonly unreadable?: string | undefined;
}

/** The beginning of such a body is read, and no other. */
const JSON_BODY = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;
const OUTPUT_BOUNDS: ReadonlySet<string> = new Set([
  'max_tokens',
  'max_completion_tokens',
  'max_output_tokens',
]);
const TOKENS = /^\d{1,9}$/;

/** Why the body cannot be read; undefined if it can. */
export function bodyComplaint(contentType: string, contentEncoding: string): string | undefined {
  if (!JSON_BODY.test(contentType)) return 'The body is not JSON.';
  return contentEncoding === '' || contentEncoding === 'identity'
    ? undefined
    : 'The body is compressed; the gateway has to read its beginning.';
}

/** Reads the top of a JSON body as it passes: first for the rules, then to its end, so that nothing is said twice. */
export class BodyScan implements JsonListener {
  private readonly scanner = new JsonScanner(this);
  /** As they were asked for, by how they compare. */
  private readonly wanted: ReadonlyMap<string, string>;
  private readonly fields = new Map<string, string>();
  private readonly seen = new Set<string>();
  private readonly repeated = new Set<string>();
  private outputTokens: number | undefined;

  constructor({ names }: BodyReading) {
    this.wanted = new Map(names.map((name) => [name.toLowerCase(), name]));
  }

  /** False: the body says something twice that requests are counted by. */
  feed(bytes: Buffer): boolean {
    this.scanner.feed(bytes);
    return this.repeated.size === 0;
  }

  facts(bytes: number): BodyFacts {
    const { fields, repeated, outputTokens } = this;
    return { fields: new Map(fields), repeated: new Set(repeated), outputTokens, bytes };
  }

  member({ depth, name }: JsonScanner): void {
    if (depth !== 1 || name === undefined) return;
    const wanted = this.wanted.get(name.toLowerCase());
    if (wanted === undefined) return;
    // There are servers to which "Model" is "model", and the last one counts.
    if (this.seen.has(wanted) || name !== wanted) this.repeated.add(wanted);
    this.seen.add(wanted);
  }

  string(scanner: JsonScanner): void {
    const { depth, name = '' } = scanner;
    if (depth !== 1 || this.wanted.get(name.toLowerCase()) === undefined) return;
    const text = scanner.text();
    if (text !== undefined && text !== '') this.fields.set(name, text);
  }

  number(scanner: JsonScanner): void {
    const { depth, name = '' } = scanner;
    const digits = scanner.text() ?? '';
    if (depth !== 1 || !OUTPUT_BOUNDS.has(name) || !TOKENS.test(digits)) return;
    this.outputTokens = Math.max(this.outputTokens ?? 0, Number(digits));
  }
}

export function unreadBody(bytes: number, unreadable: string | undefined): BodyFacts {
  return { fields: new Map(), repeated: new Set(), outputTokens: undefined, bytes, unreadable };
}
