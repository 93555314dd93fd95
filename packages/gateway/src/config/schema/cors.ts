import { z } from 'zod';
import { shown } from '../shown.ts';
import { type DeepReadonly, duration, headerName, list } from './fields.ts';
import { method } from './rule.ts';

const ORIGIN = /^https?:\/\/(?:\*\.)?(?:[a-z\d](?:[a-z\d.-]*[a-z\d])?|\[[\da-f:.]+\])(?::\d{1,5})?$/;

/** An origin as browsers write it, with `*.` for every name below it; or `*` alone. */
const origin = z.string().superRefine((value, context) => {
  if (value === '*' || ORIGIN.test(value)) return;
  context.addIssue({
    code: 'custom',
    message: `is ${shown(value)}; expected an origin in lower case without a path, such as "https://app.example.com", "https://*.example.com" or "*"`,
  });
});

const requestHeader = z.union([z.literal('*'), headerName()]);

export const cors = z.strictObject({
  allowed_origins: list(origin).min(1).meta({
    description:
      'Origins whose pages may read responses: `https://app.example.com`, `https://*.example.com` (any name below it), or `*` (every page).',
  }),
  handled_by: z.enum(['gateway', 'backend']).default('gateway').meta({
    description:
      '`gateway`: answers preflights itself, and replaces what backends say about CORS. `backend`: passes preflights on without counting them, and leaves the responses of backends alone; only answers of the gateway itself get headers.',
  }),
  allowed_methods: list(method, 32)
    .min(1)
    .default(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'])
    .meta({ description: 'Methods that pages may use.' }),
  allowed_headers: list(requestHeader, 256).default(['*']).meta({
    kind: 'list: header name',
    description: 'Headers that pages may send; `*` is every header, `Authorization` included.',
  }),
  exposed_headers: list(headerName(), 256).default([]).meta({
    description:
      'Headers of backends that pages may read. Rate limit headers, `Retry-After` and the request id always are.',
  }),
  allow_credentials: z
    .boolean()
    .default(false)
    .meta({ description: 'Pages may send cookies and read what comes back. Not with the origin `*`.' }),
  max_age: duration()
    .prefault('10m')
    .meta({ description: 'How long browsers may keep the answer to a preflight.' }),
});

export type CorsConfig = DeepReadonly<z.output<typeof cors>>;
