import { ApiProblem, type ProblemOptions } from '../api/problem.ts';

/** Every way in which the admin server says no; `docs/gateway-admin.md` lists them. */
export const PROBLEMS = {
  INVALID_REQUEST: { status: 400, title: 'The request cannot be understood' },
  TOKEN_REQUIRED: { status: 401, title: 'A valid token is required' },
  READ_ONLY: { status: 403, title: 'This token may only read' },
  CROSS_SITE: { status: 403, title: 'Changes from another site are not allowed' },
  NOT_FOUND: { status: 404, title: 'There is no such path' },
  UNKNOWN_POLICY: { status: 404, title: 'There is no such policy' },
  UNKNOWN_REQUEST: { status: 404, title: 'Nobody remembers this request' },
  METHOD_NOT_ALLOWED: { status: 405, title: 'This method is not allowed here' },
  TOO_MANY_OVERRIDES: { status: 409, title: 'There are too many overrides' },
  BODY_TOO_LARGE: { status: 413, title: 'The body is too large' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: 'The body must be JSON' },
  MISDIRECTED_HOST: { status: 421, title: 'This host is not served here' },
  INVALID_NUMBERS: { status: 422, title: 'The numbers do not fit the policy' },
  RELOAD_REFUSED: { status: 422, title: 'The configuration cannot be used' },
  TOO_MANY_FAILURES: { status: 429, title: 'Too many wrong tokens' },
  INTERNAL: { status: 500, title: 'The gateway failed' },
  TOO_MANY_WATCHERS: { status: 503, title: 'Too many pages watch this gateway' },
  STORE_UNAVAILABLE: { status: 503, title: 'The store did not answer' },
} as const;

export type ProblemCode = keyof typeof PROBLEMS;

export class AdminProblem extends ApiProblem<ProblemCode> {
  override name = 'AdminProblem';

  constructor(code: ProblemCode, detail: string, options?: ProblemOptions) {
    super(PROBLEMS, code, detail, options);
  }
}
