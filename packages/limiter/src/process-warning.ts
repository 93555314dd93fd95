/** Tells whoever runs the process, once, what an application has not asked to hear: on Node.js as a process warning. */
export function processWarning(message: string, code: string): void {
  const runtime: unknown = Reflect.get(globalThis, 'process');
  if (canWarn(runtime)) runtime.emitWarning(message, { type: 'SpillgateWarning', code });
  // oxlint-disable-next-line no-console -- where there are no process warnings
  else console.warn(`[${code}] ${message}`);
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
