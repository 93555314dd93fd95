// node heap-child.js <candidate> <key count>: fills one store and prints what it holds per key, as JSON.

import { collectGarbage } from '../frame/machine.ts';
import { CANDIDATES } from './candidates.ts';
import { fill } from './fill.ts';
import type { HeapUse } from './heap.ts';

const REALISTIC_LIMIT = 100;

const [, , candidateId, keyCountText] = process.argv;
const keyCount = Number(keyCountText);
const candidate = CANDIDATES.find(({ id }) => id === candidateId);
if (candidate === undefined || !(keyCount > 0))
  throw new Error('Usage: heap-child.js <candidate> <key count>');

const before = settledMemory();
const subject = candidate.open(REALISTIC_LIMIT);
await fill(subject, keyCount);
const after = settledMemory();
const use: HeapUse = {
  bytesPerKey: (after.heapUsed + after.external - before.heapUsed - before.external) / keyCount,
  residentBytesPerKey: (after.rss - before.rss) / keyCount,
};
process.stdout.write(JSON.stringify(use));
await subject.close([]);

function settledMemory(): NodeJS.MemoryUsage {
  // Twice: array buffers that the first collection finds dead are only counted out by the second.
  collectGarbage();
  collectGarbage();
  return process.memoryUsage();
}
