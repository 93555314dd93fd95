import type { AnyState } from '#limiter/algorithms/algorithm.js';
import { ALGORITHMS } from '#limiter/algorithms/index.js';
import type { AlgorithmName, Plan } from 'spillgate';

const DOUBLE_BYTES = 8;

/** The bytes of a state in Redis: little-endian doubles in the order that the algorithm lists them. */
export function packState(algorithm: AlgorithmName, state: AnyState): Buffer {
  const doubles = ALGORITHMS[algorithm].redis.toDoubles(state);
  const bytes = Buffer.alloc(doubles.length * DOUBLE_BYTES);
  for (const [at, double] of doubles.entries()) bytes.writeDoubleLE(double, at * DOUBLE_BYTES);
  return bytes;
}

export function unpackState({ algorithm, numbers }: Plan, bytes: Buffer): AnyState {
  return algorithm.redis.fromDoubles(doublesIn(bytes), numbers);
}

export function doublesIn(bytes: Buffer): readonly number[] {
  return Array.from({ length: bytes.length / DOUBLE_BYTES }, (_, at) =>
    bytes.readDoubleLE(at * DOUBLE_BYTES),
  );
}
