/** Every way in which the service says that it cannot decide; `docs/service.md` lists them. */
export const SERVICE_PROBLEMS = {
  INVALID_REQUEST: { status: 400, title: 'The request cannot be understood' },
  TOKEN_REQUIRED: { status: 401, title: 'A valid token is required' },
  UNTRUSTED_PROXY: { status: 403, title: 'This proxy is not trusted' },
  NOT_FOUND: { status: 404, title: 'There is no such path' },
  UNKNOWN_POLICY: { status: 404, title: 'There is no such policy' },
  METHOD_NOT_ALLOWED: { status: 405, title: 'This method is not allowed here' },
  BODY_TOO_LARGE: { status: 413, title: 'The body is too large' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: 'The body must be JSON' },
  TOO_MANY_FAILURES: { status: 429, title: 'Too many wrong tokens' },
  INTERNAL: { status: 500, title: 'The service failed' },
  STORE_UNAVAILABLE: { status: 503, title: 'The store did not answer' },
} as const;

export type ServiceProblemCode = keyof typeof SERVICE_PROBLEMS;

/** Ends a call with a problem (RFC 9457). Nothing was counted. */
export class ServiceProblem extends Error {
  readonly code: ServiceProblemCode;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: ServiceProblemCode,
    detail: string,
    { headers = {} }: { readonly headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(detail);
    this.name = 'ServiceProblem';
    this.code = code;
    this.headers = headers;
  }

  get status(): number {
    return SERVICE_PROBLEMS[this.code].status;
  }

  toJSON(): object {
    const { status, title } = SERVICE_PROBLEMS[this.code];
    return { type: 'about:blank', title, status, detail: this.message, code: this.code };
  }
}
