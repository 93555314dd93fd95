import { useEffect, useState } from 'preact/hooks';

/** A value that pages follow. */
export class Observable<Value> {
  private current: Value;
  private readonly listeners = new Set<() => void>();

  constructor(initial: Value) {
    this.current = initial;
  }

  get value(): Value {
    return this.current;
  }

  set(value: Value): void {
    this.current = value;
    for (const tell of this.listeners) tell();
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }
}

/** The value now; the component is drawn again when it changes. */
export function useObservable<Value>(observable: Observable<Value>): Value {
  const [, redraw] = useState(0);
  useEffect(() => observable.listen(() => redraw((count) => count + 1)), [observable]);
  return observable.value;
}
