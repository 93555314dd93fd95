import { pino } from 'pino';
import { prettyFactory } from 'pino-pretty';
import type { Config } from '../config/config.ts';
import { QueuedLines, writeTo, type WriteBytes } from './queued-lines.ts';
import type { FinishedRequest } from './traffic.ts';

export interface Logger extends Log {
  /** One line of the access log; nothing while that is off. */
  readonly access: (request: FinishedRequest) => void;
  /** One line of the decision log. The caller knows which decisions are wanted, and has made keys printable. */
  decision(record: object): void;
  /** Takes new settings into use. */
  configure(config: Config['logging']): void;
  /** These texts never appear in a line, wherever they come from. */
  hide(secrets: readonly string[]): void;
  /** Lines that were lost because nobody took them. */
  readonly dropped: () => number;
  /** Waits for the last lines, for a bounded time. */
  flush(): Promise<void>;
}

export interface LoggerParts {
  readonly config: Config['logging'];
  /** Only people at a terminal like them; see `wantsColour`. */
  readonly colours?: boolean;
  /** Somebody reads it as it is written. Default: false. */
  readonly terminal?: boolean | undefined;
  /** Whether other processes, such as workers, write to the same output. Default: true. */
  readonly shared?: boolean | undefined;
  /** Default: the standard output. */
  readonly output?: WriteBytes;
}

const STANDARD_OUTPUT = 1;
const FLUSH_WITHIN_MS = 1000;
const MASK = '********';
const SHORTEST_SECRET = 4;
const MAX_PATH_LENGTH = 1024;
/** Whatever someone may log by accident, at the top and one level below. */
const NEVER_LOGGED = ['authorization', 'cookie', 'password', 'secret', 'token'];

export function createLogger({
  config,
  colours = false,
  terminal = false,
  shared = true,
  output,
}: LoggerParts): Logger {
  const sink = new QueuedLines(output ?? writeTo(STANDARD_OUTPUT), shared);
  const pretty = prettyFactory({
    colorize: colours,
    ignore: 'pid,hostname',
    translateTime: 'SYS:HH:MM:ss.l',
    singleLine: true,
  });
  let settings = config;
  let secrets: readonly string[] = [];
  const shown = (line: string): string => {
    const safe = harmlessLine(masked(line, secrets));
    const readable = settings.format === 'auto' ? terminal : settings.format === 'pretty';
    return readable ? pretty(doublyEscaped(safe)) : safe;
  };
  /** A line that will be lost is not even made: in a flood, it would cost more than the answer to its request. */
  const gather = (line: () => string): void => {
    if (sink.isFull()) sink.lose();
    else sink.gather(shown(line()));
  };
  const logger = pino(
    {
      level: config.level,
      // A supervisor knows the process, and a collector the host.
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }) },
      redact: { paths: NEVER_LOGGED.flatMap((name) => [name, `*.${name}`]), censor: MASK },
    },
    { write: (line: string) => sink.write(shown(line)) },
  );

  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
    access(request) {
      if (settings.access_log_enabled) gather(() => infoLine(accessFields(request), 'request'));
    },
    decision: (record) => gather(() => infoLine(record, 'decision')),
    configure(changed) {
      settings = changed;
      logger.level = changed.level;
    },
    hide(texts) {
      secrets = texts.filter((text) => text.length >= SHORTEST_SECRET).flatMap(spellings);
    },
    dropped: () => sink.dropped(),
    flush: () => sink.flush(FLUSH_WITHIN_MS),
  };
}

/** A line is JSON, and may quote JSON or a URL. */
function spellings(secret: string): readonly string[] {
  const inJson = JSON.stringify(secret).slice(1, -1);
  const inQuotedJson = JSON.stringify(inJson).slice(1, -1);
  return [...new Set([inQuotedJson, inJson, secret, encodeURIComponent(secret)])];
}

function masked(line: string, secrets: readonly string[]): string {
  let safe = line;
  for (const secret of secrets) if (safe.includes(secret)) safe = safe.replaceAll(secret, MASK);
  return safe;
}

/** As pino writes it. There is a line per request, its fields are known, and this takes less than half of the time. */
function infoLine(fields: object, message: string): string {
  return `{"level":"info","time":"${new Date().toISOString()}",${JSON.stringify(fields).slice(1, -1)},"msg":"${message}"}\n`;
}

/** Undefined fields are left out of the line. */
function accessFields(request: FinishedRequest): object {
  const { id, outcome, reason, scheme, protocol, status, clientAddress, rule, upstream, traceId } = request;
  return {
    id: loggable(id),
    at: startedAt(request.durationMs),
    outcome,
    reason,
    rejected: request.rejected,
    client: clientAddress,
    method: loggable(request.method, 64),
    scheme,
    host: loggable(request.host, 255),
    path: loggable(request.path, MAX_PATH_LENGTH),
    protocol,
    status,
    rule,
    apiKey: request.apiKey,
    cost: request.cost?.cost,
    costEstimated: request.cost?.estimated,
    upstream,
    received: request.bytesReceived,
    sent: request.bytesSent,
    ms: rounded(request.durationMs),
    upstreamMs: request.upstreamMs === undefined ? undefined : rounded(request.upstreamMs),
    traceId,
  };
}

/**
 * Seconds since 1970 when a request came that has just ended, by the clock that limits in the memory go by: a log can
 * be replayed.
 */
function startedAt(durationMs: number): number {
  return Math.round((performance.timeOrigin + performance.now() - durationMs) * 1000) / 1_000_000;
}

/** To microseconds: more digits say nothing. */
function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}

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
