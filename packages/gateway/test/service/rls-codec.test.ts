// Messages of Envoy, read and written without descriptors: as the descriptors read and write them.
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { requestIn } from '../../src/service/rls/rls-answer.ts';
import { messageNamed } from '../../src/service/wire/proto-registry.ts';
import { readRlsRequest, writeRlsResponse } from '../../src/service/wire/rls-codec.ts';

const requestMessage = messageNamed('envoy.service.ratelimit.v3.RateLimitRequest');
const responseMessage = messageNamed('envoy.service.ratelimit.v3.RateLimitResponse');

function byDescriptor(bytes: Uint8Array): unknown {
  const request = requestIn(fromBinary(requestMessage, bytes));
  return {
    ...request,
    descriptors: request.descriptors.map(({ entries, limit, ...rest }) => ({
      ...rest,
      entries: entries.map(({ key, value }) => ({ key, value })),
      limit: limit && { requestsPerUnit: limit.requestsPerUnit, unit: limit.unit },
    })),
  };
}

const text = fc.string({ unit: 'grapheme', maxLength: 20 });
const uint32 = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const requests = fc.record({
  domain: text,
  hitsAddend: uint32,
  descriptors: fc.array(
    fc.record(
      {
        entries: fc.array(fc.record({ key: text, value: text }), { maxLength: 4 }),
        limit: fc.record({ requestsPerUnit: uint32, unit: fc.integer({ min: 0, max: 9 }) }),
        hitsAddend: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
        isNegativeHits: fc.boolean(),
      },
      { requiredKeys: ['entries', 'isNegativeHits'] },
    ),
    { maxLength: 4 },
  ),
});

test('any request is read as its descriptor reads it', () => {
  fc.assert(
    fc.property(requests, (fields) => {
      const bytes = toBinary(requestMessage, create(requestMessage, fields));

      expect(readRlsRequest(bytes)).toEqual(byDescriptor(bytes));
    }),
  );
});

test('a request in pieces is put together, and what is unknown is skipped', () => {
  fc.assert(
    fc.property(requests, requests, fc.uint8Array({ maxLength: 20 }), (one, other, unknown) => {
      const bytes = Buffer.concat([
        toBinary(requestMessage, create(requestMessage, one)),
        Buffer.from([0xfa, 0x01, unknown.length]),
        unknown,
        toBinary(requestMessage, create(requestMessage, other)),
      ]);

      expect(readRlsRequest(bytes)).toEqual(byDescriptor(bytes));
    }),
  );
});

test('bytes that are cut off are never read as a message of other descriptors', () => {
  fc.assert(
    fc.property(requests, fc.nat(), (fields, at) => {
      const bytes = toBinary(requestMessage, create(requestMessage, fields));
      const cut = bytes.subarray(0, at % (bytes.length + 1));
      const outcome = (read: () => unknown): unknown => {
        try {
          return read();
        } catch {
          return 'no message';
        }
      };

      expect(outcome(() => readRlsRequest(cut))).toEqual(outcome(() => byDescriptor(cut)));
    }),
  );
});

const responses = fc.record(
  {
    overallCode: fc.integer({ min: 0, max: 2 }),
    statuses: fc.array(
      fc.record(
        {
          code: fc.integer({ min: 0, max: 2 }),
          limitRemaining: uint32,
          currentLimit: fc.record({
            requestsPerUnit: uint32,
            unit: fc.integer({ min: 0, max: 7 }),
            name: text,
          }),
          durationUntilReset: fc.record({
            seconds: fc.bigInt({ min: 0n, max: 10n ** 11n }),
            nanos: fc.integer({ min: 0, max: 999_999_999 }),
          }),
        },
        { requiredKeys: ['code', 'limitRemaining'] },
      ),
      { maxLength: 4 },
    ),
    responseHeadersToAdd: fc.array(fc.record({ key: text, value: text }), { maxLength: 4 }),
    rawBody: fc.uint8Array({ maxLength: 20_000 }),
    dynamicMetadata: fc.dictionary(fc.string(), fc.string(), { maxKeys: 3, noNullPrototype: true }),
  },
  { requiredKeys: ['overallCode', 'statuses', 'responseHeadersToAdd'] },
);

test('any response is written so that its descriptor reads the same', () => {
  fc.assert(
    fc.property(responses, fc.nat({ max: 8 }), (response, head) => {
      const written = Uint8Array.from(writeRlsResponse(response, head).subarray(head));

      expect(fromBinary(responseMessage, written)).toEqual(
        fromBinary(responseMessage, toBinary(responseMessage, create(responseMessage, response))),
      );
    }),
  );
});
