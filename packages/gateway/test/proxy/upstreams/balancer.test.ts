import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { Balancer } from '../../../src/proxy/upstreams/configured-upstreams.ts';

interface Fake {
  readonly name: string;
  readonly weight: number;
  inFlight: number;
  healthy: boolean;
  suspect: boolean;
}

function fake(name: string, weight = 1): Fake {
  return { name, weight, inFlight: 0, healthy: true, suspect: false };
}

function names(balancer: Balancer<Fake>, count: number): string {
  return Array.from({ length: count }, () => balancer.next()?.name ?? '-').join('');
}

test('round robin spreads the turns of a heavy server between those of light ones', () => {
  const balancer = new Balancer([fake('a', 5), fake('b'), fake('c')], 'roundRobin');

  expect(names(balancer, 14)).toBe('aabacaaaabacaa');
});

test('in every full round each server gets exactly its weight', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 6 }), (weights) => {
      const servers = weights.map((weight, index) => fake(String(index), weight));
      const balancer = new Balancer(servers, 'roundRobin');

      const turns = names(
        balancer,
        weights.reduce((sum, weight) => sum + weight, 0),
      );

      for (const { name, weight } of servers) expect(turns.split(name).length - 1).toBe(weight);
    }),
  );
});

test('least connections asks who has the fewest requests under way per weight, and takes turns among equals', () => {
  const [a, b, c] = [fake('a', 2), fake('b'), fake('c')];
  const balancer = new Balancer([a, b, c], 'leastConnections');
  a.inFlight = 2;
  b.inFlight = 2;
  c.inFlight = 1;

  const turns = names(balancer, 6);

  expect(turns).not.toContain('b');
  expect(turns.split('a').length - 1).toBe(4);
  expect(turns.split('c').length - 1).toBe(2);
});

test('an unhealthy server gets nothing, and a suspect one only when there is no other', () => {
  const [a, b, c] = [fake('a'), fake('b'), fake('c')];
  const balancer = new Balancer([a, b, c], 'roundRobin');

  a.healthy = false;
  b.suspect = true;
  expect(names(balancer, 4)).toBe('cccc');

  c.suspect = true;
  expect(names(balancer, 4)).toMatch(/^(?:bc|cb){2}$/);

  b.healthy = false;
  expect(names(balancer, 2)).toBe('cc');

  c.healthy = false;
  expect(names(balancer, 2)).toBe('--');
});
