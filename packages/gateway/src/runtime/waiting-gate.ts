import type { Gate, Ruling, Waiter } from '../rules/gate.ts';
import type { RequestFacts } from '../rules/request-facts.ts';

/** A gate that knows whether requests still wait for it: what they need next may only go when none does. */
export class WaitingGate implements Gate {
  private readonly gate: Gate;
  private waiting = 0;
  private readonly idleListeners: (() => void)[] = [];

  constructor(gate: Gate) {
    this.gate = gate;
  }

  rule(request: RequestFacts, waiter?: Waiter): Ruling | Promise<Ruling> {
    const ruling = this.gate.rule(request, waiter);
    if (!(ruling instanceof Promise)) return ruling;
    this.waiting += 1;
    // Beside the request, which hears of it right after: what it needs next is still there.
    void ruling.then(this.leave, this.leave);
    return ruling;
  }

  /** Resolves as soon as nobody waits. */
  async idle(): Promise<void> {
    if (this.waiting === 0) return;
    await new Promise<void>((resolve) => {
      this.idleListeners.push(resolve);
    });
  }

  private readonly leave = (): void => {
    this.waiting -= 1;
    if (this.waiting === 0) for (const tell of this.idleListeners.splice(0)) tell();
  };
}
