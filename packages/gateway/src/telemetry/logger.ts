import { pino } from 'pino';
import { prettyFactory } from 'pino-pretty';
import type { Config } from '../config/config.ts';
import { QueuedLines, writeTo, type WriteBytes } from './line-sink.ts';
import type { Log } from './log.ts';
import { doublyEscaped, harmlessLine, loggable } from './log.ts';
import type { FinishedRequest } from './traffic.ts';

export interface Logger extends Log {
  /** One line of the access log; nothing while that is off. */
  access(request: FinishedRequest): void;
  /** One line of the decision log. The caller knows which decisions are wanted, and has made keys printable. */
  decision(record: object): void;
  /** Takes new settings into use. */
  configure(config: Config['logging']): void;
  /** These texts never appear in a line, wherever they come from. */
  hide(secrets: readonly string[]): void;
  /** Lines that were lost because nobody took them. */
  dropped(): number;
  /** Waits for the last lines, for a bounded time. */
  flush(): Promise<void>;
}

export interface LoggerParts {
  readonly config: Config['logging'];
  /** Only people at a terminal like them; see `wantsColour`. */
  readonly colours?: boolean;
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

export function createLogger({ config, colours = false, output }: LoggerParts): Logger {
  const sink = new QueuedLines(output ?? writeTo(STANDARD_OUTPUT));
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
    return settings.format === 'json' ? safe : pretty(doublyEscaped(safe));
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
      if (settings.access_log_enabled) sink.gather(shown(infoLine(accessFields(request), 'request')));
    },
    decision: (record) => sink.gather(shown(infoLine(record, 'decision'))),
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
    outcome,
    reason,
    client: clientAddress,
    method: loggable(request.method, 64),
    scheme,
    host: loggable(request.host, 255),
    path: loggable(request.path, MAX_PATH_LENGTH),
    protocol,
    status,
    rule,
    upstream,
    received: request.bytesReceived,
    sent: request.bytesSent,
    ms: rounded(request.durationMs),
    upstreamMs: request.upstreamMs === undefined ? undefined : rounded(request.upstreamMs),
    traceId,
  };
}

/** To microseconds: more digits say nothing. */
function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
