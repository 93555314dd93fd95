import { z } from 'zod';
import { bodyForm, templateComplaint } from '../answer-template.ts';
import { duration, list, network } from './fields.ts';

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
