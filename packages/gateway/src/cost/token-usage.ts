import type { JsonListener, JsonScanner } from './json-scanner.ts';

/** What providers call tokens of a prompt and of what is answered. Fields that nobody sent are left out. */
interface UsageFields {
  prompt_tokens?: number;
  completion_tokens?: number;
  input_tokens?: number;
  output_tokens?: number;
  total_tokens?: number;
  /** Part of `prompt_tokens` or `input_tokens` (OpenAI). */
  cached_tokens?: number;
  /** Beside `input_tokens` (Anthropic). */
  cache_creation_input_tokens?: number;
  cache_read_input_tokens?: number;
}

const FIELDS: ReadonlySet<string> = new Set<keyof UsageFields>([
  'prompt_tokens',
  'completion_tokens',
  'input_tokens',
  'output_tokens',
  'total_tokens',
  'cache_creation_input_tokens',
  'cache_read_input_tokens',
]);
const DETAILS: ReadonlySet<string> = new Set(['prompt_tokens_details', 'input_tokens_details']);

/** Where the usage of a message may stand: `usage`, `message.usage` or `response.usage`. */
type UsagePlace = 'root' | 'message' | 'response';

/** Which protocol a stream speaks, and so how it says that something went wrong. */
export type LlmProtocol = 'openai' | 'openaiResponses' | 'anthropic';

/** Tokens as they are counted. */
export interface CountedTokens {
  readonly tokens: number;
  /** Not all of it was said by the provider: some was estimated from lengths. */
  readonly estimated: boolean;
}

/** What of the usage counts. */
export interface UsageCount {
  readonly count: 'total' | 'input' | 'output';
  /** Whether tokens count that the provider read from its cache. */
  readonly cached_input: 'counted' | 'free';
}

/** English text and JSON have about so many bytes per token. */
const BYTES_PER_TOKEN = 4;
/** Strings of a delta that are no text of the model. */
const NOT_TEXT: ReadonlySet<string> = new Set(['type', 'role', 'id', 'name', 'stop_reason', 'finish_reason']);
const COUNT = /^\d{1,15}$/;

export function tokensOfBytes(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

/**
 * Finds the usage of one or more messages of a provider. Only its own place counts: what stands in a string, in an
 * array or deeper is something that somebody wrote.
 */
export class UsageReader implements JsonListener {
  /** Of the text that the model made, as streams send it piece by piece. */
  textBytes = 0;
  private readonly latest: UsageFields = {};
  /** A message said what the whole request used, not only what it began with. */
  private final = false;
  private found: { [at in UsagePlace]?: UsageFields } = {};
  private type: string | undefined;
  private pieceBytes = 0;
  private spoken: LlmProtocol = 'openai';

  get protocol(): LlmProtocol {
    return this.spoken;
  }

  /** The provider has said what the request used. */
  get isFinal(): boolean {
    return this.final;
  }

  string(scanner: JsonScanner): void {
    if (scanner.depth === 1 && scanner.nameAt(1) === 'type') this.type = scanner.text();
    else if (isModelText(scanner)) this.pieceBytes += scanner.stringBytes;
  }

  number(scanner: JsonScanner): void {
    const place = placeOf(scanner);
    if (place === undefined) return;
    const digits = scanner.text() ?? '';
    const field = scanner.name;
    if (field === undefined || !COUNT.test(digits)) return;
    const fields = (this.found[place] ??= {});
    Reflect.set(fields, field, Number(digits));
  }

  /** A message has ended. One that is not whole says nothing. */
  messageEnded(scanner: JsonScanner): void {
    if (scanner.complete) {
      const { type = '' } = this;
      this.textBytes += this.pieceBytes;
      this.accept(type);
    }
    this.found = {};
    this.type = undefined;
    this.pieceBytes = 0;
  }

  private accept(type: string): void {
    const { root, message, response } = this.found;
    if (type.startsWith('message_') || type.startsWith('content_block_')) this.spoken = 'anthropic';
    if (type.startsWith('response.')) this.spoken = 'openaiResponses';
    if (type === 'message_start') Object.assign(this.latest, message);
    if (type.startsWith('response.') && response !== undefined) this.settleWith(response);
    if (root !== undefined) this.settleWith(root);
  }

  private settleWith(usage: UsageFields): void {
    Object.assign(this.latest, usage);
    this.final = true;
  }

  /** What counts of what was used so far; `prompt` is an estimate of what was asked, where nobody else says it. */
  counted({ count, cached_input }: UsageCount, prompt: () => number): CountedTokens {
    const { latest } = this;
    const own = latest.prompt_tokens ?? latest.input_tokens;
    const fromCache = latest.cached_tokens ?? latest.cache_read_input_tokens ?? 0;
    const beside = (latest.cache_creation_input_tokens ?? 0) + (latest.cache_read_input_tokens ?? 0);
    const free = cached_input === 'free' ? fromCache : 0;
    const asked = own === undefined ? prompt() : own + beside - free;
    const said = latest.completion_tokens ?? latest.output_tokens ?? 0;
    const answered = this.final ? said : Math.max(said, tokensOfBytes(this.textBytes + this.pieceBytes));
    const total =
      this.final && latest.total_tokens !== undefined ? latest.total_tokens - free : asked + answered;
    const needsPrompt = own === undefined && count !== 'output' && latest.total_tokens === undefined;
    const tokens = { total, input: asked, output: answered }[count];
    return { tokens: Math.max(0, tokens), estimated: !this.final || needsPrompt };
  }
}

/** Whether the number is one of the usage, and of which. */
function placeOf(scanner: JsonScanner): UsagePlace | undefined {
  const first = scanner.nameAt(1);
  const place = first === 'message' || first === 'response' ? first : 'root';
  const above = place === 'root' ? 0 : 1;
  if (scanner.nameAt(above + 1) !== 'usage') return undefined;
  const { depth, name = '' } = scanner;
  if (depth === above + 2) return FIELDS.has(name) ? place : undefined;
  const isDetail = depth === above + 3 && DETAILS.has(scanner.nameAt(above + 2) ?? '');
  return isDetail && name === 'cached_tokens' ? place : undefined;
}

/** Whether a string is a piece of what the model said: `delta`, `delta.text`, `choices[].delta.content`, ... */
function isModelText(scanner: JsonScanner): boolean {
  if (NOT_TEXT.has(scanner.name ?? '')) return false;
  const first = scanner.nameAt(1);
  if (first === 'delta') return true;
  if (first !== 'choices') return false;
  const piece = scanner.nameAt(3);
  return piece === 'delta' || (piece === 'text' && scanner.depth === 3);
}
