/** Acts when no microtask is left, before the next callback; without Node.js at the end of the turn. */
export function afterMicrotasks(act: () => void): void {
  if (hasNextTick(runtime)) runtime.nextTick(act);
  else setImmediate(act);
}

const runtime: unknown = Reflect.get(globalThis, 'process');

interface TickingProcess {
  nextTick(act: () => void): void;
}

function hasNextTick(given: unknown): given is TickingProcess {
  return (
    typeof given === 'object' && given !== null && 'nextTick' in given && typeof given.nextTick === 'function'
  );
}
