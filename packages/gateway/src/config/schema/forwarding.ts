// How a request changes on its way to a backend.
import { z } from 'zod';
import { shown } from '../shown.ts';
import { headerName, list } from './fields.ts';

/** What belongs to one hop or frames a message, and what the gateway itself tells backends. */
const GATEWAYS_OWN =
  /^(?:connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|http2-settings|expect|content-length|via|forwarded|x-forwarded-.*|sec-websocket-.*)$/i;
const ERROR = 'is a header of one connection, or one that the gateway sets itself; remove it';
const VALUE = /^(?:[!-~](?:[ -~]*[!-~])?)?$/;
const HOST = /^(?:[\w.-]{1,253}|\[[\da-f:.]{2,45}\])(?::\d{1,5})?$/i;
const MAX_HEADERS = 64;

export function setHeaders() {
  const named = headerName().refine((name) => !GATEWAYS_OWN.test(name), { error: ERROR });
  return z
    .record(
      named,
      z.string().max(4096).regex(VALUE, { error: 'must be printable ASCII without spaces around it' }),
    )
    .superRefine((headers, context) => {
      const names = Object.keys(headers);
      for (const name of names) {
        if (name.toLowerCase() !== 'host' || HOST.test(headers[name] ?? '')) continue;
        const message = `is ${shown(headers[name])}; expected a host, such as "api.example.com"`;
        context.addIssue({ code: 'custom', path: [name], message });
      }
      const lower = names.map((name) => name.toLowerCase());
      const twice = names.find((_, at) => lower.indexOf(lower[at] ?? '') < at);
      if (twice !== undefined)
        context.addIssue({ code: 'custom', path: [twice], message: 'appears twice; keep one' });
      if (names.length > MAX_HEADERS) {
        context.addIssue({
          code: 'custom',
          message: `has ${names.length} headers; at most ${MAX_HEADERS} are set`,
        });
      }
    })
    .default({});
}

export function removedHeaders() {
  const named = headerName().refine((name) => !GATEWAYS_OWN.test(name) && !/^host$/i.test(name), {
    error: ERROR,
  });
  return list(named, 256).default([]);
}

/** In the normal form of paths: rules see nothing else, so nothing else could be stripped. */
const PREFIX = /^(?:\/[\w~!$&'()*+,;=:@-][\w.~!$&'()*+,;=:@-]*)+$/;

function prefix() {
  return z.string().superRefine((value, context) => {
    if (PREFIX.test(value) && value.length <= 1024) return;
    const message = `is ${shown(value)}; expected whole segments without a slash at the end, such as "/api/v1"`;
    context.addIssue({ code: 'custom', message });
  });
}

export const rewrite = z.strictObject({
  strip_prefix: prefix().optional().meta({
    description:
      'Removed from the beginning of the path, where it is whole segments: `/api` makes `/api/items` `/items`. The backend gets it as `X-Forwarded-Prefix`.',
  }),
  add_prefix: prefix().optional().meta({
    description: 'Put before the path, after `strip_prefix`; with both, one prefix replaces the other.',
  }),
});
