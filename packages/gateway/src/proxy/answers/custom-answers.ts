// Answers of the gateway in the operator's own words.
import { STATUS_CODES } from 'node:http';
import { bodyForm, renderTemplate, type TemplateValues } from '../../config/answer-template.ts';
import type { Config } from '../../config/config.ts';
import type { AnswerConfig } from '../../config/schema/answers.ts';
import type { RuleOutcome } from '../../rules/rule-outcome.ts';
import type { RequestHead } from '../exchange.ts';
import {
  GATEWAY_ERRORS,
  grpcMessage,
  PROBLEM_TYPE,
  type AnswerText,
  type GatewayErrorCode,
} from '../gateway-errors.ts';
import type { ReadRequest } from '../request/read-request.ts';

/** An answer as the gateway gives it by itself, and all that a template may say about it. */
export interface OwnAnswer {
  /** A reason of the rules, or a code. */
  readonly name: string;
  readonly standard: AnswerText;
  /** Of the request. */
  readonly id: string;
  readonly head: RequestHead;
  /** Undefined if it could not be read. */
  readonly request: ReadRequest | undefined;
  /** Undefined if no rule was asked. */
  readonly ruling: RuleOutcome | undefined;
  readonly grpc: boolean;
}

const tables = new WeakMap<Config, AnswerTable>();

/** The answer that a configuration has instead of the standard one. */
export function customAnswer(config: Config, answer: OwnAnswer): AnswerText {
  const found = tableOf(config).find(answer.name, answer.ruling?.detail.rule);
  if (found === undefined) return answer.standard;
  return answer.grpc ? grpcText(found, answer) : httpText(found, answer);
}

function valuesOf({ name, standard, id, head, request, ruling }: OwnAnswer, status: number): TemplateValues {
  const { decision, rule } = ruling?.detail ?? {};
  const problem = ruling?.admitted === false ? ruling.problem : undefined;
  const retryAfter = valueOf(standard.headers, 'retry-after');
  const values = {
    status,
    title: STATUS_CODES[status],
    detail: problem?.detail ?? (isErrorCode(name) ? GATEWAY_ERRORS[name].detail : undefined),
    code: name,
    rule,
    policy: decision?.policy,
    limit: decision?.limit,
    remaining: decision?.remaining,
    retry_after: retryAfter === undefined ? undefined : Number(retryAfter),
    request_id: id,
    method: head.method,
    host: request?.facts.host,
    path: request?.facts.path,
  };
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}

function isErrorCode(name: string): name is GatewayErrorCode {
  return Object.hasOwn(GATEWAY_ERRORS, name);
}

function tableOf(config: Config): AnswerTable {
  const known = tables.get(config);
  if (known !== undefined) return known;
  const made = new AnswerTable(config);
  tables.set(config, made);
  return made;
}

type AnswersByName = ReadonlyMap<string, AnswerConfig>;

class AnswerTable {
  private readonly common: AnswersByName;
  private readonly byRule: ReadonlyMap<string, AnswersByName>;

  constructor({ server, maintenance: { body }, rate_limit: { rules } }: Config) {
    const closed = body === undefined ? [] : [maintenanceAnswer(body)];
    this.common = byName([...server.answers, ...closed]);
    this.byRule = new Map(
      rules.flatMap((rule) => (rule.answers.length === 0 ? [] : [[rule.name, byName(rule.answers)]])),
    );
  }

  find(name: string, rule: string | undefined): AnswerConfig | undefined {
    const ofRule = rule === undefined ? undefined : this.byRule.get(rule)?.get(name);
    return ofRule ?? this.common.get(name);
  }
}

function maintenanceAnswer(body: string): AnswerConfig {
  return { on: ['MAINTENANCE'], headers: {}, [bodyForm(body)]: body };
}

/** The first that names an answer holds. */
function byName(answers: readonly AnswerConfig[]): AnswersByName {
  const found = new Map<string, AnswerConfig>();
  for (const answer of answers) for (const name of answer.on) if (!found.has(name)) found.set(name, answer);
  return found;
}

function grpcText({ headers, grpc }: AnswerConfig, answer: OwnAnswer): AnswerText {
  const { standard } = answer;
  const values = valuesOf(answer, standard.status);
  const message =
    grpc?.message === undefined ? undefined : grpcMessage(renderTemplate(grpc.message, values, 'text'));
  const changed = standard.headers.map((value, at) => {
    const name = at % 2 === 1 ? standard.headers[at - 1] : undefined;
    if (name === 'grpc-status') return String(grpc?.status ?? value);
    return name === 'grpc-message' ? (message ?? value) : value;
  });
  return { ...standard, headers: [...changed, ...renderedHeaders(headers, values)] };
}

const CONTENT_TYPES = {
  json: 'application/json',
  html: 'text/html; charset=utf-8',
  text: 'text/plain; charset=utf-8',
} as const;

type BodyForm = keyof typeof CONTENT_TYPES;

function httpText(config: AnswerConfig, answer: OwnAnswer): AnswerText {
  const { standard, head } = answer;
  const status = config.status ?? standard.status;
  const values = valuesOf(answer, status);
  const forms = FORMS.filter((form) => config[form] !== undefined);
  const form = preferredForm(linesOf(head.rawHeaders, 'accept'), forms);
  const template = form === undefined ? undefined : config[form];
  const added = renderedHeaders(config.headers, values);
  const vary = forms.length > 0 ? ['Vary', 'Accept'] : [];
  if (form === undefined || template === undefined) {
    const headers = [...standard.headers, ...added, ...vary];
    return { status, headers, body: withStatus(standard, status) };
  }
  const own = ['Content-Type', CONTENT_TYPES[form], 'X-Content-Type-Options', 'nosniff'];
  const headers = [...withoutType(standard.headers), ...added, ...vary, ...own];
  return { status, headers, body: renderTemplate(template, values, form) };
}

const FORMS = ['json', 'html', 'text'] as const;

/** RFC 9457 §3.1.2: the status in a problem is that of the answer. What a service has said stays as it is. */
function withStatus({ headers, body }: AnswerText, status: number): string {
  if (valueOf(headers, 'content-type') !== PROBLEM_TYPE) return body;
  try {
    const problem: unknown = JSON.parse(body);
    return JSON.stringify({ ...Object(problem), title: STATUS_CODES[status], status });
  } catch {
    // Of a service that only says that it is one.
    return body;
  }
}

function withoutType(headers: readonly string[]): string[] {
  const kept: string[] = [];
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at]?.toLowerCase() !== 'content-type') kept.push(headers[at] ?? '', headers[at + 1] ?? '');
  }
  return kept;
}

function renderedHeaders(headers: AnswerConfig['headers'], values: TemplateValues): readonly string[] {
  return Object.entries(headers).flatMap(([name, value]) => [name, renderTemplate(value, values, 'header')]);
}

const MEDIA_TYPES: Readonly<Record<BodyForm, readonly string[]>> = {
  json: ['application/json', 'application/problem+json'],
  html: ['text/html', 'application/xhtml+xml'],
  text: ['text/plain'],
};
/** More members of `Accept` are not read. */
const MAX_MEMBERS = 32;
const MEMBER = /^([\w!#$&^.+-]+|\*)\/([\w!#$&^.+-]+|\*)$/;

/** RFC 9110 §12.5.1. Undefined if the client accepts none of them: then it gets the problem. */
export function preferredForm(accept: readonly string[], forms: readonly BodyForm[]): BodyForm | undefined {
  const ranges = accept
    .join(',')
    .split(',', MAX_MEMBERS)
    .flatMap((member) => rangeOf(member));
  if (ranges.length === 0) return forms[0];
  let best: { readonly form: BodyForm; readonly quality: number } | undefined;
  for (const form of forms) {
    const quality = qualityOf(MEDIA_TYPES[form], ranges);
    if (quality > (best?.quality ?? 0)) best = { form, quality };
  }
  return best?.form;
}

interface MediaRange {
  readonly type: string;
  readonly subtype: string;
  readonly quality: number;
}

function rangeOf(member: string): readonly MediaRange[] {
  const [range = '', ...parameters] = member.toLowerCase().split(';');
  const match = MEMBER.exec(range.trim());
  if (match === null) return [];
  const [, type = '', subtype = ''] = match;
  const weight = parameters.map((text) => /^\s*q=([01](?:\.\d{0,3})?)\s*$/.exec(text)?.[1]).find(Boolean);
  return [{ type, subtype, quality: weight === undefined ? 1 : Number(weight) }];
}

/** The most specific range decides. Of the names of a form, ranges are about the first. */
function qualityOf(names: readonly string[], ranges: readonly MediaRange[]): number {
  const [type = ''] = names[0]?.split('/') ?? [];
  const exact = ranges.find((range) => names.includes(`${range.type}/${range.subtype}`));
  const ofType = ranges.find((range) => range.type === type && range.subtype === '*');
  const any = ranges.find((range) => range.type === '*' && range.subtype === '*');
  return (exact ?? ofType ?? any)?.quality ?? 0;
}

function valueOf(headers: readonly string[], name: string): string | undefined {
  return linesOf(headers, name)[0];
}

function linesOf(headers: readonly string[], name: string): readonly string[] {
  const lines: string[] = [];
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at]?.toLowerCase() === name) lines.push(headers[at + 1] ?? '');
  }
  return lines;
}
