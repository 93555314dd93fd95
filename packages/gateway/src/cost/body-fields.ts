import { JsonScanner, type JsonListener } from './json-scanner.ts';

/** What a rule wants to know from a body. */
export interface BodyReading {
  /** Texts at its top, by name. */
  readonly names: readonly string[];
  /** Of them, those that somebody is refused by: the body may not say anything else about them later. */
  readonly binding: ReadonlySet<string>;
  /** So much of it is read before the request is decided. */
  readonly maxBytes: number;
}

/** What the beginning of a body says. */
export interface BodyFacts {
  /** Texts at its top that came once, by name. */
  readonly fields: ReadonlyMap<string, string>;
  /** Names that came more than once, or in another spelling too: servers differ in which of them counts. */
  readonly repeated: ReadonlySet<string>;
  /** Names that came without a text that could be read. */
  readonly unusable: ReadonlySet<string>;
  /** How many tokens the request bounds its answer to; undefined if it does not. */
  readonly outputTokens: number | undefined;
  /** Of the whole body, or of what was read where its length is not known. */
  readonly bytes: number;
  /** Why it is not known what the body says, as its sender is told. */
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
/** A longer text is nobody's name. */
const MAX_FIELD_BYTES = 256;

/** Why the body cannot be read; undefined if it can. */
export function bodyComplaint(contentType: string, contentEncoding: string): string | undefined {
  if (!JSON_BODY.test(contentType)) return 'The body is not JSON.';
  return contentEncoding === '' || contentEncoding === 'identity'
    ? undefined
    : 'The body is compressed; the gateway has to read its beginning.';
}

const NOT_JSON = 'The body is not well-formed JSON, or is nested too deeply.';

/** Reads the top of a JSON body as it passes: first for the rules, then to its end, so that they were told all. */
export class BodyScan implements JsonListener {
  private readonly scanner = new JsonScanner(this);
  private readonly binding: BodyReading['binding'];
  /** As they were asked for, by how they compare. */
  private readonly wanted: ReadonlyMap<string, string>;
  private readonly fields = new Map<string, string>();
  private readonly seen = new Set<string>();
  private readonly repeated = new Set<string>();
  private readonly unusable = new Set<string>();
  private outputTokens: number | undefined;
  /** Whatever comes now, the rules do not hear of. */
  private told = false;

  constructor({ names, binding }: BodyReading) {
    this.binding = binding;
    this.wanted = new Map(names.map((name) => [folded(name), name]));
  }

  /** False: the body says, or may say, something else about what requests are counted by than the rules were told. */
  feed(bytes: Buffer): boolean {
    this.scanner.feed(bytes);
    const { binding, repeated, scanner } = this;
    // Servers that read what is no JSON, or nests deeper, could find another text in there.
    return binding.size === 0 || !(scanner.broken || [...repeated].some((name) => binding.has(name)));
  }

  facts(bytes: number): BodyFacts {
    this.told = true;
    const { fields, repeated, unusable, outputTokens, scanner } = this;
    return {
      fields: new Map(fields),
      repeated: new Set(repeated),
      unusable: new Set(unusable),
      outputTokens,
      bytes,
      unreadable: scanner.broken ? NOT_JSON : undefined,
    };
  }

  member({ depth, name }: JsonScanner): void {
    const wanted = depth === 1 && name !== undefined ? this.wanted.get(folded(name)) : undefined;
    if (wanted === undefined) return;
    if (this.told || this.seen.has(wanted) || name !== wanted) this.repeated.add(wanted);
    this.seen.add(wanted);
    this.unusable.add(wanted);
  }

  string(scanner: JsonScanner): void {
    const { depth, name = '', stringBytes } = scanner;
    const isWanted = depth === 1 && this.unusable.has(name) && stringBytes <= MAX_FIELD_BYTES;
    const text = isWanted ? scanner.text() : undefined;
    if (text === undefined) return;
    this.unusable.delete(name);
    if (text !== '') this.fields.set(name, text);
  }

  /** `null` is nothing. */
  literal(scanner: JsonScanner): void {
    const { depth, name = '' } = scanner;
    if (depth === 1 && scanner.text() === 'null') this.unusable.delete(name);
  }

  number(scanner: JsonScanner): void {
    const { depth, name = '' } = scanner;
    const digits = scanner.text() ?? '';
    if (depth !== 1 || !OUTPUT_BOUNDS.has(name) || !TOKENS.test(digits)) return;
    this.outputTokens = Math.max(this.outputTokens ?? 0, Number(digits));
  }
}

/** There are servers to which "Model" is "model", or "u\u017fer" is "user", and the last one counts. */
function folded(name: string): string {
  return name.toUpperCase().toLowerCase();
}

const NO_NAMES: ReadonlySet<string> = new Set();

export function unreadBody(bytes: number, unreadable: string | undefined): BodyFacts {
  const nothing = { fields: new Map<string, string>(), repeated: NO_NAMES, unusable: NO_NAMES };
  return { ...nothing, outputTokens: undefined, bytes, unreadable };
}

/** Why a name that came has no text. */
export function unusableField(name: string): string {
  return `The body has "${name}", but not as a text of at most ${MAX_FIELD_BYTES} bytes that comes early.`;
}
