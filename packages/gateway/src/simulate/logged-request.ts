/** A request as an access log tells of it. */
export interface LoggedRequest {
  /** When it arrived, in milliseconds since 1970. */
  atMs: number;
  /** That is the second in which it arrived, of a log that only has seconds. */
  isRounded?: boolean | undefined;
  /** The address of the client, as the log spells it. */
  readonly client: string | undefined;
  readonly method: string;
  readonly scheme: 'http' | 'https';
  /** Perhaps with a port; empty if the log does not say. */
  readonly host: string;
  /** The path, perhaps with a query. */
  readonly target: string;
  /** Names in lower case and values by turns, as far as the log has them. */
  readonly headers: readonly string[];
  /** When it ended, in milliseconds since 1970; undefined if the log does not say. */
  readonly endMs?: number | undefined;
  /** The name of the API key that was accepted, in our own log. */
  readonly apiKey?: string | undefined;
  /** What became of it where no rule was asked, in our own log. */
  readonly withoutRule?: 'invalid' | 'unidentified' | 'authorization' | 'answered' | undefined;
}

/** A way to write access logs. */
export interface AccessLogFormat {
  readonly name: string;
  readonly description: string;
  /** The log only has whole seconds: requests of the same second are spread over it. */
  readonly wholeSeconds: boolean;
  /** Undefined: the line cannot be read. `'other'`: it is a line of such a log, and not about a request. */
  readonly read: (line: string) => LoggedRequest | 'other' | undefined;
  /** The same for usual lines, sooner, since no text is made of them. Undefined: `read` has to be asked. */
  readonly readBytes?:
    | ((bytes: Buffer, from: number, to: number) => LoggedRequest | 'other' | undefined)
    | undefined;
}

export const NO_LOGGED_HEADERS: readonly string[] = [];
