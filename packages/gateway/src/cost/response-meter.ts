import type { SettleConfig } from '../config/schema/cost.ts';
import type { MeasuredCost, RequestCharge } from './request-charge.ts';
import { tokensOfBytes, type CountedTokens, type LlmProtocol } from './token-usage.ts';
import { UsageTap } from './usage-tap.ts';

/** What a meter needs of the request that it stands beside. */
export interface MeteredRequest {
  /** Bytes of its body, as far as they came. */
  readonly promptBytes: () => number;
  /** The backend has it, or a part of it. */
  readonly wasSent: () => boolean;
  /** The budget is spent, and the response stands between two events: it ends here. */
  budgetSpent(): void;
}

type TokenSettings = Extract<SettleConfig, { readonly type: 'llmTokens' }>;

const COST = /^\d{1,15}$/;
/** A stream asks for so much more at a time, at least. */
const LEAST_EXTENSION_TOKENS = 256;

/** Finds out what a request costs while its response passes. It keeps nothing of it. */
export class ResponseMeter {
  private readonly charge: RequestCharge;
  private readonly request: MeteredRequest;
  private tap: UsageTap | undefined;
  private header: string | undefined;
  private bytesSent = 0;
  private cutsOff = false;
  private extending = false;
  private spent = false;

  constructor(charge: RequestCharge, request: MeteredRequest) {
    this.charge = charge;
    this.request = request;
  }

  /** The response begins; names and values by turns. */
  head(status: number, headers: readonly string[]): void {
    const { settle } = this.charge;
    if (settle.type === 'header') this.header = valueOf(headers, settle.header_name.toLowerCase());
    if (settle.type !== 'llmTokens') return;
    const contentType = valueOf(headers, 'content-type') ?? '';
    const contentEncoding = valueOf(headers, 'content-encoding') ?? '';
    this.tap = new UsageTap({ status, contentType, contentEncoding });
    // Nothing can be put behind a body whose length was said.
    this.cutsOff = settle.cut_off && this.tap.takesEvents && valueOf(headers, 'content-length') === undefined;
  }

  /** How many bytes of it the client gets; fewer than it has: the response ends behind them. */
  pass(bytes: Buffer): number {
    const until = this.spent ? (this.tap?.writeUntilBoundary(bytes) ?? -1) : -1;
    if (until !== -1) {
      this.bytesSent += until;
      return until;
    }
    this.bytesSent += bytes.length;
    if (!this.spent) this.tap?.write(bytes);
    if (this.cutsOff && !this.spent) this.watchBudget();
    return bytes.length;
  }

  /** The response is to end where it stands. */
  get isOver(): boolean {
    return this.spent && this.tap?.betweenEvents === true;
  }

  /** What the client is told when its budget is spent. */
  lastEvent(): Buffer {
    return budgetSpentEvent(this.tap?.protocol ?? 'openai');
  }

  /** What it has cost; undefined if nobody can tell. */
  measure(): MeasuredCost | undefined {
    const { settle } = this.charge;
    if (!this.request.wasSent()) return { cost: 0, estimated: false };
    switch (settle.type) {
      case 'requestBytes':
        return { cost: this.request.promptBytes(), estimated: false };
      case 'responseBytes':
        return { cost: this.bytesSent, estimated: false };
      case 'header':
        return headerCost(this.header, settle.max);
      default:
        return this.measureTokens(settle);
    }
  }

  private measureTokens(settle: TokenSettings): MeasuredCost | undefined {
    const { tap } = this;
    // Who leaves before the answer begins is charged for the question.
    if (tap === undefined) {
      return { cost: settle.count === 'output' ? 0 : this.promptTokens(), estimated: true };
    }
    tap.end();
    if (tap.isUnreadable) return undefined;
    const { tokens, estimated } = this.used(tap, settle);
    return { cost: tokens, estimated };
  }

  private used(tap: UsageTap, settle: TokenSettings): CountedTokens {
    return tap.used(settle, () => this.promptTokens());
  }

  private promptTokens(): number {
    return tokensOfBytes(this.request.promptBytes());
  }

  /** Charges more when more is used than was charged, and ends the response when there is no more. */
  private watchBudget(): void {
    const { settle, reserved } = this.charge;
    if (this.extending || settle.type !== 'llmTokens' || this.tap === undefined) return;
    const missing = this.used(this.tap, settle).tokens - reserved;
    if (missing <= 0) return;
    this.extending = true;
    // More each time: a reservation may be extended 63 times, and a stream may be long.
    const most = Math.max(missing, LEAST_EXTENSION_TOKENS, Math.ceil(reserved / 4));
    void this.extend(most, missing);
  }

  private async extend(most: number, least: number): Promise<void> {
    const allowed = await this.charge.extend(most, least);
    this.extending = false;
    if (allowed) return;
    this.spent = true;
    if (this.isOver) this.request.budgetSpent();
  }
}

function headerCost(text: string | undefined, max: number): MeasuredCost | undefined {
  if (text === undefined || !COST.test(text)) return undefined;
  return { cost: Math.min(Number(text), max), estimated: false };
}

/** The one value of a header; undefined if there is none, or more than one. */
function valueOf(headers: readonly string[], name: string): string | undefined {
  let found: string | undefined;
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at]?.toLowerCase() !== name) continue;
    if (found !== undefined) return undefined;
    found = headers[at + 1]?.trim();
  }
  return found;
}

const SPENT_MESSAGE = 'The budget of tokens is spent: this answer ends here.';

/** The last event of a stream whose budget is spent, as its protocol says that something went wrong. */
function budgetSpentEvent(protocol: LlmProtocol): Buffer {
  switch (protocol) {
    case 'anthropic':
      return event({ type: 'error', error: { type: 'rate_limit_error', message: SPENT_MESSAGE } }, 'error');
    case 'openaiResponses':
      return event(
        { type: 'error', code: 'rate_limit_exceeded', message: SPENT_MESSAGE, param: null },
        'error',
      );
    default: {
      const error = {
        message: SPENT_MESSAGE,
        type: 'rate_limit_error',
        param: null,
        code: 'rate_limit_exceeded',
      };
      return event({ error });
    }
  }
}

function event(data: object, name?: string): Buffer {
  return Buffer.from(`${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`);
}
