import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { ENDPOINTS } from '../../src/admin/endpoints.ts';
import { runAdmin, type Running } from './running-admin.ts';

let running: Running;

beforeEach(async () => {
  running = await runAdmin();
});

afterEach(async () => {
  await running.stop();
});

describe('the OpenAPI document', () => {
  test('describes every endpoint, with schemas that hold together', async () => {
    const { json } = await running.fetch('/openapi.json');

    const document = openApi.parse(json);
    const operations = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.entries(item).map(([method, operation]) => ({ path, method, ...operation })),
    );
    expect(operations.map(({ method, path }) => `${method.toUpperCase()} ${path}`).toSorted()).toEqual(
      ENDPOINTS.map(({ method, path }) => `${method} ${path}`).toSorted(),
    );
    expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length);
    for (const { path, parameters } of operations) {
      const named = parameters.filter(({ in: place }) => place === 'path').map(({ name }) => `{${name}}`);
      expect(path.match(/\{\w+\}/g) ?? []).toEqual(named);
    }
    const references = [...JSON.stringify(json).matchAll(/"\$ref":"([^"]+)"/g)].map(([, target]) => target);
    expect(new Set(references)).toEqual(new Set(['#/components/schemas/Problem']));
    expect(document.components.schemas).toHaveProperty('Problem');
  });

  test('the page lists every endpoint without a script or a style', async () => {
    const { text } = await running.fetch('/endpoints');

    for (const { path } of ENDPOINTS) expect(text).toContain(path);
    expect(text).not.toMatch(/<script|<style|style=|on\w+=/);
  });
});

/** What OpenAPI 3.1 wants of what we use of it. */
const media = z.record(
  z.string().regex(/^[\w.+-]+\/[\w.+-]+$/),
  z.strictObject({ schema: z.looseObject({}) }),
);
const operation = z.strictObject({
  operationId: z.string().regex(/^\w+$/),
  summary: z.string().min(1),
  security: z.array(z.record(z.literal('token'), z.array(z.string()).max(0))),
  parameters: z.array(
    z.strictObject({
      name: z.string(),
      in: z.enum(['path', 'query']),
      required: z.boolean(),
      schema: z.looseObject({}),
    }),
  ),
  requestBody: z.strictObject({ required: z.literal(true), content: media }).optional(),
  responses: z.record(
    z.string().regex(/^[1-5]\d\d$/),
    z.strictObject({ description: z.string().min(1), content: media }),
  ),
});
const openApi = z.strictObject({
  openapi: z.literal('3.1.0'),
  info: z.strictObject({
    title: z.string(),
    version: z.literal('1.2.3'),
    description: z.string(),
    license: z.strictObject({ name: z.string(), identifier: z.string() }),
  }),
  servers: z.array(z.strictObject({ url: z.literal('/') })),
  paths: z.record(
    z.string().regex(/^\//),
    z.partialRecord(z.enum(['get', 'post', 'put', 'delete']), operation),
  ),
  components: z.strictObject({
    schemas: z.record(z.string(), z.looseObject({})),
    securitySchemes: z.strictObject({
      token: z.looseObject({ type: z.literal('http'), scheme: z.literal('bearer') }),
    }),
  }),
});
