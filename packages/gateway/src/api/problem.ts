/** Every way in which an API says no, by its code. */
export type ProblemTable<Code extends string> = Readonly<
  Record<Code, { readonly status: number; readonly title: string }>
>;

export interface ProblemOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** What else to say, such as the problems of a configuration. */
  readonly more?: Readonly<Record<string, unknown>>;
}

/** Ends a request to one of the gateway's APIs with a problem (RFC 9457). */
export abstract class ApiProblem<Code extends string> extends Error {
  readonly code: Code;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  private readonly title: string;
  private readonly more: Readonly<Record<string, unknown>>;

  constructor(
    table: ProblemTable<Code>,
    code: Code,
    detail: string,
    { headers = {}, more = {} }: ProblemOptions = {},
  ) {
    super(detail);
    const { status, title } = table[code];
    this.code = code;
    this.status = status;
    this.title = title;
    this.headers = headers;
    this.more = more;
  }

  toJSON(): object {
    const { status, title, message: detail, code, more } = this;
    return { type: 'about:blank', title, status, detail, code, ...more };
  }
}
