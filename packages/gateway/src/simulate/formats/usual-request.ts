import type { AccessLogFormat, LoggedRequest } from '../logged-request.ts';

/** Where the line of a request stands, and who reads it. */
interface LineOfRequest {
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
  readonly read: AccessLogFormat['read'];
}

/**
 * Its line becomes a text only when somebody asks for headers: nearly nobody does. The fields are declared only:
 * defined, each would be written twice.
 */
export class UsualRequest implements LoggedRequest {
  declare atMs: number;
  declare isRounded: boolean | undefined;
  declare readonly endMs: number | undefined;
  declare readonly client: string | undefined;
  declare readonly method: string;
  declare readonly scheme: 'http' | 'https';
  declare readonly host: string;
  declare readonly target: string;
  declare readonly apiKey: string | undefined;
  declare readonly withoutRule: LoggedRequest['withoutRule'];
  declare private readonly bytes: Buffer;
  declare private readonly from: number;
  declare private readonly to: number;
  declare private readonly read: AccessLogFormat['read'];

  constructor(parts: Omit<LoggedRequest, 'headers'>, line: LineOfRequest) {
    this.atMs = parts.atMs;
    this.isRounded = parts.isRounded;
    this.endMs = parts.endMs;
    this.client = parts.client;
    this.method = parts.method;
    this.scheme = parts.scheme;
    this.host = parts.host;
    this.target = parts.target;
    this.apiKey = parts.apiKey;
    this.withoutRule = parts.withoutRule;
    this.bytes = line.bytes;
    this.from = line.from;
    this.to = line.to;
    this.read = line.read;
  }

  get headers(): readonly string[] {
    const found = this.read(this.bytes.toString('utf8', this.from, this.to));
    return typeof found === 'object' ? found.headers : [];
  }
}
