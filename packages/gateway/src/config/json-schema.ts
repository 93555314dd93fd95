import { z } from 'zod';
import { configSchema } from './config.ts';

/** The JSON Schema (2020-12) of a configuration file, for editors. */
export function jsonSchema(): Readonly<Record<string, unknown>> {
  return {
    title: 'Spillgate gateway configuration',
    ...z.toJSONSchema(configSchema, {
      io: 'input',
      override: ({ jsonSchema: schema }) => {
        if (schema['secret'] === true) schema.writeOnly = true;
        // Our own notes for the reference page.
        delete schema['secret'];
        delete schema['kind'];
      },
    }),
  };
}
