import { z } from 'zod';
import { templateComplaint, type TemplateForm, bodyForm } from '../answer-template.ts';
import { type DeepReadonly, headerName, list, duration, network } from './fields.ts';

/** Why a rule refuses a request. */
const REFUSAL_REASONS = [
  'limits',
  'denyList',
  'missingKey',
  'invalidCost',
  'unidentified',
  'ambiguousPath',
  'storeFailure',
  'authorization',
] as const;

/** The codes of all other answers of the gateway itself. The proxy has what they say. */
export const GATEWAY_ERROR_CODES = [
  'MALFORMED_REQUEST',
  'INVALID_TARGET',
  'INVALID_HOST',
  'INVALID_HEADER',
  'INVALID_FRAMING',
  'AMBIGUOUS_BODY',
  'INVALID_HANDSHAKE',
  'ORIGIN_NOT_ALLOWED',
  'CORS_NOT_ALLOWED',
  'METHOD_NOT_ALLOWED',
  'HEADER_TIMEOUT',
  'BODY_TIMEOUT',
  'BODY_TOO_LARGE',
  'URI_TOO_LONG',
  'EXPECTATION_FAILED',
  'TOO_MANY_REQUESTS_OF_CLIENT',
  'TOO_MANY_TUNNELS',
  'HEADERS_TOO_LARGE',
  'GATE_FAILED',
  'UPGRADE_NOT_SUPPORTED',
  'UPSTREAM_UNREACHABLE',
  'UPSTREAM_BROKEN',
  'NO_BACKEND',
  'NO_UPSTREAM',
  'TOO_MANY_REQUESTS_UNDER_WAY',
  'MAINTENANCE',
  'AUTHORIZATION_UNAVAILABLE',
  'SHUTTING_DOWN',
  'UPSTREAM_BUSY',
  'UPSTREAM_TIMEOUT',
  'REQUEST_TIMEOUT',
  'LOOP_DETECTED',
] as const;

const MAX_TEMPLATE_LENGTH = 65_536;

function template(form: TemplateForm, max = MAX_TEMPLATE_LENGTH) {
  return z
    .string()
    .max(max)
    .superRefine((value, context) => {
      const message = templateComplaint(value, form);
      if (message !== undefined) context.addIssue({ code: 'custom', message });
    })
    .meta({ kind: 'template' });
}

/** What frames or describes a message, and what the gateway says itself. */
const NOT_TO_SET =
  /^(?:connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|content-length|content-type|content-encoding|date|access-control-.*|grpc-.*|http2-settings)$/i;

const answerHeader = headerName().refine((name) => !NOT_TO_SET.test(name), {
  error: 'is a header that frames the answer, or that the gateway sets itself; remove it',
});

export const answer = z.strictObject({
  on: list(z.enum([...REFUSAL_REASONS, ...GATEWAY_ERROR_CODES]), 64)
    .min(1)
    .meta({
      kind: 'list of reasons and codes',
      description:
        'Which answers: `limits` (a 429), `denyList`, `missingKey`, `invalidCost`, `unidentified`, `ambiguousPath`, `storeFailure`, `authorization`, or codes of [answers of the gateway itself](gateway-http.md#answers-of-the-gateway-itself).',
    }),
  status: z.int().min(300).max(599).optional().meta({ description: 'Another status.' }),
  headers: z
    .record(answerHeader, template('header', 4096))
    .default({})
    .meta({ description: 'Headers to add, by name; they may have fields in them.' }),
  json: template('json')
    .optional()
    .meta({ description: 'The body for clients that prefer JSON. Unset: problem details (RFC 9457).' }),
  html: template('html').optional().meta({ description: 'The body for clients that prefer HTML: browsers.' }),
  text: template('text').optional().meta({ description: 'The body for clients that prefer plain text.' }),
  grpc: z
    .strictObject({
      status: z.int().min(1).max(16).optional().meta({ description: 'Another status of gRPC.' }),
      message: template('text', 1024).optional().meta({ description: 'Another message.' }),
    })
    .optional()
    .meta({ description: 'What gRPC clients get.' }),
});

export type AnswerConfig = DeepReadonly<z.output<typeof answer>>;

/** At most so many of them, for all requests and for each rule. */
export const MAX_ANSWERS = 64;

export const maintenance = z.strictObject({
  enabled: z.boolean().default(false).meta({
    description:
      'Answers every request with a 503, without counting it and without asking a backend. The [admin API](gateway-admin.md) switches it too.',
  }),
  retry_after: duration({ min: 1000 })
    .optional()
    .meta({ description: 'When clients should try again (`Retry-After`).' }),
  body: z
    .string()
    .max(65_536)
    .superRefine((value, context) => {
      const message = templateComplaint(value, bodyForm(value));
      if (message !== undefined) context.addIssue({ code: 'custom', message });
    })
    .optional()
    .meta({
      kind: 'template',
      description:
        'What clients get instead of problem details: HTML if it begins with `<`, JSON if it begins with `{`, else plain text.',
    }),
  allow: list(network(), 1000)
    .default([])
    .meta({ description: 'Client addresses and ranges that are served as usual.' }),
});
