// A gateway that settles costs, and what it has charged.
import { createLimiter, fixedWindow, type Limiter } from 'spillgate';
import { gateOf } from '../rules/facts.ts';
import { startRig, type Rig } from './rig.ts';

const QUOTA = 100_000;
const tokens = fixedWindow({ name: 'tokens', quota: QUOTA, window: '365d' });
export const requests = fixedWindow({ name: 'requests', quota: QUOTA, window: '365d' });

export interface ChargedRig extends Rig {
  readonly limiter: Limiter;
  /** What a key has been charged. */
  readonly charged: (key?: string, policy?: typeof tokens) => Promise<number>;
}

export async function chargedRig(
  rule: string,
  origin: { readonly url: string },
  quota = QUOTA,
): Promise<ChargedRig> {
  const limiter = createLimiter();
  const { gate } = gateOf(
    `
  policies:
    tokens: { algorithm: fixedWindow, quota: ${quota}, window: 365d }
    inFlight: { algorithm: concurrency, limit: 2, hold: 1m }
    requests: { algorithm: fixedWindow, quota: ${QUOTA}, window: 365d }
  rules:
    - { name: all, ${rule.includes('key:') ? '' : 'key: { type: global, global_key: all }, '}${rule} }
`,
    { limiter },
  );
  const rig = await startRig({ origin, rule: (facts, waiter) => gate.decide(facts, waiter) });
  const policyOf = (policy: typeof tokens) =>
    policy === tokens ? fixedWindow({ name: 'tokens', quota, window: '365d' }) : policy;
  const charged = async (key = 'all', policy = tokens): Promise<number> => {
    const counted = policyOf(policy);
    return counted.limit - (await limiter.peek(counted.for(key), { cost: 0 })).remaining;
  };
  return { ...rig, limiter, charged };
}

export const LLM =
  'policies: [{ policy: requests, cost: 1 }, tokens], cost: { type: llmTokens }, settle: { type: llmTokens }';

export function post(path: string, body: string, headers = ''): string {
  return `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

export function question(output: number, stream: boolean, model = 'small'): string {
  return JSON.stringify({
    model,
    max_tokens: output,
    stream,
    messages: [{ role: 'user', content: 'a b c' }],
  });
}
