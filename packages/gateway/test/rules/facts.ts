// A gate and requests for it, without sockets.
import { createLimiter, type Limiter } from 'spillgate';
import { clientAddress } from 'spillgate/http';
import { virtualClock } from 'spillgate/testing';
import type { LimitsSource } from '../../src/external/limits-source.ts';
import { loadConfig } from '../../src/index.ts';
import { createRuleEngine } from '../../src/rules/rule-engine.ts';
import type { DecisionRecord, RuleEngine, RuleOutcome } from '../../src/rules/rule-outcome.ts';
import { createPolicies } from '../../src/rules/compiled-rule.ts';
import type { RequestFacts } from '../../src/rules/request-facts.ts';

export interface Asked {
  readonly method?: string;
  readonly host?: string;
  readonly path?: string;
  readonly otherPath?: string;
  readonly query?: string;
  readonly address?: string;
  readonly headers?: readonly (readonly [string, string])[];
}

const clientOf = clientAddress();

export function facts({
  method = 'GET',
  host = 'example.com',
  path = '/',
  otherPath,
  query = '',
  address = '203.0.113.7',
  headers = [],
}: Asked = {}): RequestFacts {
  return {
    id: 'request-1',
    method,
    scheme: 'http',
    host,
    path,
    otherPath,
    query,
    headers: {
      raw: headers.flat(),
      lines: (name) => headers.filter(([given]) => given.toLowerCase() === name).map(([, value]) => value),
    },
    client: clientOf({ peer: address, headerLines: () => [] }),
  };
}

export interface TestGate {
  readonly gate: RuleEngine;
  readonly limiter: Limiter;
  readonly clock: ReturnType<typeof virtualClock>;
  readonly records: readonly DecisionRecord[];
  readonly errors: readonly string[];
  /** Asks, and is sure that the answer comes at once. */
  readonly ask: (asked?: Asked) => RuleOutcome;
}

export interface GateSetup {
  readonly limiter?: Limiter;
  readonly limitsSource?: LimitsSource;
}

/** A gate on virtual time from what stands below `rate_limit`, or from a whole file. */
export function gateOf(yaml: string, { limiter: given, limitsSource }: GateSetup = {}): TestGate {
  const text = /^\w+:/.test(yaml) ? yaml : `rate_limit:\n${yaml}`;
  const loaded = loadConfig({ file: { path: 'test.yaml', text } });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const clock = virtualClock();
  const limiter = given ?? createLimiter({ clock });
  const records: DecisionRecord[] = [];
  const errors: string[] = [];
  const gate = createRuleEngine(loaded.config, {
    limiter,
    policies: createPolicies(loaded.config),
    limitsSource,
    onDecision: (record) => records.push(record),
    log: {
      debug: () => undefined,
      info: () => undefined,
      warn: () => undefined,
      error: (_, message) => errors.push(message),
    },
  });
  const ask = (asked?: Asked): RuleOutcome => {
    const ruling = gate.decide(facts(asked));
    if (ruling instanceof Promise) throw new Error('the answer has to come at once');
    return ruling;
  };
  return { gate, limiter, clock, records, errors, ask };
}

export function statusOf(ruling: RuleOutcome): number {
  return ruling.admitted ? 200 : ruling.problem.status;
}

export function problemOf(ruling: RuleOutcome): unknown {
  return ruling.admitted ? undefined : ruling.problem;
}
