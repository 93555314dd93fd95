import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { closeFrame, FrameTracker } from '../../../src/proxy/websocket/relay.ts';

const frames = fc.array(
  fc.record({ size: fc.constantFrom(0, 1, 2, 125, 126, 127, 65_535, 65_536), mask: fc.boolean() }),
  { minLength: 1, maxLength: 6 },
);

function frame({ size, mask }: { size: number; mask: boolean }): Buffer {
  const length = size < 126 ? [size] : size < 2 ** 16 ? [126, size >> 8, size & 0xff] : [127, ...long(size)];
  const [first = 0, ...others] = length;
  const head = [0x82, mask ? first | 0x80 : first, ...others, ...(mask ? [0x88, 2, 3, 4] : [])];
  return Buffer.concat([Buffer.from(head), Buffer.alloc(size, 0x88)]);
}

function long(size: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt32BE(size, 4);
  return bytes;
}

test('the places between frames are found, however the bytes are cut', () => {
  fc.assert(
    fc.property(frames, fc.integer({ min: 1, max: 70_000 }), (written, step) => {
      const tracker = new FrameTracker();
      const parts = written.map(frame);
      const bytes = Buffer.concat(parts);
      const places: number[] = [];

      let at = 0;
      while (at < bytes.length) {
        if (tracker.atBoundary) {
          places.push(at);
          at += tracker.advance(bytes.subarray(at, at + 1));
        }
        at += tracker.advance(bytes.subarray(at, at + step), { toBoundary: true });
      }

      const expected = parts.map((_, index) => Buffer.concat(parts.slice(0, index)).length);
      expect(places).toEqual(expected);
      expect(tracker.atBoundary).toBe(true);
      expect(tracker.closed).toBe(false);
    }),
    { numRuns: 200 },
  );
});

test('a close frame is noticed when it is whole', () => {
  const tracker = new FrameTracker();
  const bytes = closeFrame(1001, Buffer.from([1, 2, 3, 4]));

  tracker.advance(bytes.subarray(0, -1));
  expect(tracker.closed).toBe(false);
  tracker.advance(bytes.subarray(-1));

  expect(tracker.closed).toBe(true);
});
