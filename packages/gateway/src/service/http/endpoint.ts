import type { z } from 'zod';
import { valueAt } from '../../config/path.ts';
import { shown, shownName } from '../../config/shown.ts';
import type { ServiceSnapshot } from '../snapshot.ts';
import type { ServiceCall, CallReply } from './call.ts';
import { ServiceProblem, type ServiceProblemCode } from './service-problem.ts';

export interface DescribedAnswer {
  readonly description: string;
  /** Undefined: the response is not JSON. */
  readonly schema: z.ZodType | undefined;
}

/** One line of the table that routing and the OpenAPI document come from. */
export interface ServiceEndpoint {
  readonly id: string;
  /** `ANY`: the method of the request that the proxy asks about. */
  readonly method: 'GET' | 'POST' | 'ANY';
  readonly path: string;
  /** Also everything below the path. */
  readonly below?: boolean | undefined;
  readonly summary: string;
  /**
   * `open`: anyone. `token`: the token, where one is configured. `proxy`: the same in `X-Spillgate-Token`, because `Authorization` is that of the
   * request that the proxy asks about.
   */
  readonly access: 'open' | 'token' | 'proxy';
  readonly body?: z.ZodType | undefined;
  readonly answers: Readonly<Record<number, DescribedAnswer>>;
  readonly problems: readonly ServiceProblemCode[];
  handle(call: ServiceCall, parts: EndpointParts): CallReply | Promise<CallReply>;
}

export interface EndpointParts {
  readonly snapshot: ServiceSnapshot;
  readonly version: string;
  /** Why no decision can be made now; undefined if one can. */
  readonly storeProblem: () => Promise<string | undefined>;
  readonly draining: () => boolean;
}

/** What the schema makes of a body; else a problem that names the first wrong value. */
export function accept<Output>(schema: z.ZodType<Output>, value: unknown): Output {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new ServiceProblem(
    'INVALID_REQUEST',
    issue === undefined ? 'The body cannot be used.' : said(issue, value),
  );
}

/** One sentence: which value, what it is, what is accepted. */
function said(issue: z.core.$ZodIssue, sent: unknown): string {
  const path = issue.path.map((part) => (typeof part === 'number' ? part : String(part)));
  const name = path.length === 0 ? 'The body' : path.join('.');
  const value = valueAt(sent, path);
  switch (issue.code) {
    case 'unrecognized_keys':
      return `${name} has ${shownName(issue.keys[0] ?? '')}, which is not a field of it: correct its name or leave it out.`;
    case 'invalid_type':
      return value === undefined
        ? `${name} is missing; expected ${issue.expected}.`
        : `${name} is ${inJson(value)}; expected ${issue.expected}.`;
    case 'too_small':
      return `${name} ${sized(value)}; expected at least ${Number(issue.minimum)}.`;
    case 'too_big':
      return `${name} ${sized(value)}; expected at most ${Number(issue.maximum)}.`;
    default:
      return issue.message;
  }
}

function sized(value: unknown): string {
  if (typeof value === 'string') return `has ${value.length} characters`;
  return Array.isArray(value) ? `has ${value.length} entries` : `is ${shown(value)}`;
}

function inJson(value: unknown): string {
  if (value === null) return 'null';
  return typeof value === 'object' && !Array.isArray(value) ? 'an object' : shown(value);
}
