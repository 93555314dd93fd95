import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/**
 * JavaScript heap plus memory outside of it (`external`, which includes array buffers) that a store holds per
 * key, the key strings and the empty store included.
 */
export interface HeapUse {
  readonly bytesPerKey: number;
  /** What the process grew by: also counts what the allocator keeps in reserve. */
  readonly residentBytesPerKey: number;
}

/** A process per candidate: nothing is shared, and nothing is left over from another one. */
export async function measureHeap(candidateId: string, keyCount: number): Promise<HeapUse> {
  const script = fileURLToPath(new URL('./heap-child.js', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [script, candidateId, String(keyCount)]);
  return parseHeapUse(JSON.parse(stdout));
}

function parseHeapUse(value: unknown): HeapUse {
  if (typeof value === 'object' && value !== null) {
    const { bytesPerKey, residentBytesPerKey }: Partial<Record<keyof HeapUse, unknown>> = value;
    if (typeof bytesPerKey === 'number' && typeof residentBytesPerKey === 'number') {
      return { bytesPerKey, residentBytesPerKey };
    }
  }
  throw new Error(`The heap measurement answered ${JSON.stringify(value)}.`);
}
