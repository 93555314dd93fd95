import type { AnyState } from '#limiter/algorithms/index.js';
import type { AlgorithmName } from 'spillgate';

const DOUBLE_BYTES = 8;

/** The bytes of a state in Redis, as the comments of the Lua twins lay them out: little-endian doubles in this order. */
export function packState(state: AnyState): Buffer {
  const doubles = listDoubles(state);
  const bytes = Buffer.alloc(doubles.length * DOUBLE_BYTES);
  for (const [at, double] of doubles.entries()) bytes.writeDoubleLE(double, at * DOUBLE_BYTES);
  return bytes;
}

export function unpackState(algorithm: AlgorithmName, bytes: Buffer): AnyState {
  const doubles = Array.from({ length: bytes.length / DOUBLE_BYTES }, (_, at) =>
    bytes.readDoubleLE(at * DOUBLE_BYTES),
  );
  const [first = 0, second = 0, third = 0, fourth = 0] = doubles;
  const layouts: Readonly<Record<AlgorithmName, AnyState>> = {
    tokenBucket: { tatUs: first, fraction: second, tokenUnits: third, drainUnits: fourth },
    leakyBucket: { tatUs: first, fraction: second, tokenUnits: third, drainUnits: fourth },
    fixedWindow: { startUs: first, count: second },
    slidingWindowLog: doubles,
    slidingWindowCounter: { index: first, current: second, previous: third },
  };
  return layouts[algorithm];
}

function listDoubles(state: AnyState): readonly number[] {
  if ('tatUs' in state) return [state.tatUs, state.fraction, state.tokenUnits, state.drainUnits];
  if ('startUs' in state) return [state.startUs, state.count];
  if ('index' in state) return [state.index, state.current, state.previous];
  return state;
}
