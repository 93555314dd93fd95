import { describe, expect, test } from 'vitest';
import { gateOf, problemOf, statusOf } from './facts.ts';

describe('a path that can be read in two ways', () => {
  const RULES = `  policies: { p: { average: 100 } }
  rules:
    - { name: admin, match: { path: "/admin/**" }, policies: [p] }
    - { name: projects, match: { path: "/projects/**" }, policies: [p] }
    - { name: tenants, match: { path: "/t/{tenant}/**" }, policies: [p], key: { type: pathParameter, name: tenant } }
    - { name: first, match: { path: "/by/**" }, policies: [p], shadow: true, allow: { cidrs: [203.0.113.7] } }
`;

  test.each([
    ['the same rule holds', '/projects/group%2Fname/issues', '/projects/group/name/issues', 200],
    ['no rule holds for either', '/x%2Fy', '/x/y', 200],
    ['the key is the same', '/t/acme/a%2Fb', '/t/acme/a/b', 200],
    ['a rule would be passed by', '/admin%2Fusers', '/admin/users', 400],
    ['another rule would hold', '/projects/..%2F..%2Fadmin%2Fusers', '/admin/users', 400],
    ['a rule would hold that the backend does not see', '/admin/..%2Fx', '/x', 400],
    ['the key differs', '/t/acme%2Fx/y', '/t/acme/x/y', 400],
    ['a key is missing in one of them', '/t/%2Fx', '/t/x', 400],
    ['a rule without policies or with lists would be passed by', '/by%2Fx', '/by/x', 400],
  ])('%s: %s or %s is %i', (_, path, otherPath, status) => {
    const { ask } = gateOf(RULES);

    expect(statusOf(ask({ path, otherPath }))).toBe(status);
  });

  test('it is refused also where a rule is a shadow or the client on a list, and says why', () => {
    const { ask } = gateOf(RULES);

    const ruling = ask({ path: '/by/..%2Fadmin%2Fx', otherPath: '/admin/x' });

    expect(ruling).toMatchObject({
      admitted: false,
      problem: { status: 400 },
      detail: { reason: 'ambiguousPath' },
    });
    expect(problemOf(ruling)).toMatchObject({ detail: expect.stringContaining('%2F') });
  });
});
