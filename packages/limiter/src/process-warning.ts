/** Tells whoever runs the process, once, what an application has not asked to hear: on Node.js as a process warning. */
export function processWarning(message: string, code: string): void {
  const runtime: unknown = Reflect.get(globalThis, 'process');
  if (canWarn(runtime)) runtime.emitWarning(message, { type: 'SpillgateWarning', code });
  // oxlint-disable-next-line no-console -- where there are no process warnings
  else console.warn(`[${code}] ${message}`);
}

/** What is to be told if the process ends by itself. More of them would say nothing new. */
const lastWords = new Set<() => void>();
const MAX_LAST_WORDS = 100;
let isWaitingForTheEnd = false;

/** Calls `tell` when the process has nothing left to do, unless `forgetLastWords` comes first. Keeps nothing alive. */
export function addLastWords(tell: () => void): void {
  if (lastWords.size >= MAX_LAST_WORDS) return;
  lastWords.add(tell);
  const runtime: unknown = Reflect.get(globalThis, 'process');
  if (isWaitingForTheEnd || !canEnd(runtime)) return;
  isWaitingForTheEnd = true;
  runtime.once('beforeExit', () => {
    isWaitingForTheEnd = false;
    const words = [...lastWords];
    lastWords.clear();
    for (const word of words) word();
  });
}

export function forgetLastWords(tell: () => void): void {
  lastWords.delete(tell);
}

interface EndingProcess {
  once(event: 'beforeExit', listener: () => void): unknown;
}

function canEnd(runtime: unknown): runtime is EndingProcess {
  return canWarn(runtime) && 'once' in runtime && typeof runtime.once === 'function';
}

interface WarningProcess {
  emitWarning(message: string, options: { readonly type: string; readonly code: string }): void;
}

function canWarn(runtime: unknown): runtime is WarningProcess {
  return (
    typeof runtime === 'object' &&
    runtime !== null &&
    'emitWarning' in runtime &&
    typeof runtime.emitWarning === 'function'
  );
}
