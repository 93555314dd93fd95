// As it is built: a thread runs JavaScript only.
import { afterEach, describe, expect, test, vi } from 'vitest';
import { loadConfig } from '../../dist/config/load-config.js';
import { loadConfigInThread } from '../../dist/config/load-in-thread.js';
import { readYamlTree } from '../../dist/config/yaml-tree.js';

vi.mock('../../dist/config/yaml-tree.js', async (original) => {
  const module = await original<{ readYamlTree: typeof readYamlTree }>();
  return { ...module, readYamlTree: vi.fn<typeof readYamlTree>(module.readYamlTree) };
});

afterEach(() => {
  vi.mocked(readYamlTree).mockClear();
});

const TEXT = `
backend: { url: "http://127.0.0.1:1" }
rate_limit:
  policies: { api: { average: 3, period: 1m } }
  rules:
    - { name: api, match: { path: "/api/**" }, policies: [api] }
`;
const LONG = `${TEXT}# ${'x'.repeat(4096)}\n`;

function source(text: string, env = {}) {
  return { file: { path: 'a.yaml', text }, env, readFile: () => 'from a file\n' };
}

describe('the thread that serves requests', () => {
  test.each([
    ['a long file', LONG],
    ['a short file with an anchor, which may stand for thousands of values', `${TEXT}# &a\n`],
  ])('never reads and checks %s itself', async (_, text) => {
    const loaded = await loadConfigInThread(source(text));

    expect(loaded.ok).toBe(true);
    expect(readYamlTree).not.toHaveBeenCalled();
  });

  test('reads a short file itself: starting a thread takes longer', async () => {
    const loaded = await loadConfigInThread(source(TEXT));

    expect(loaded.ok).toBe(true);
    expect(readYamlTree).toHaveBeenCalledTimes(1);
  });
});

test.each([
  ['a valid file', LONG, {}],
  ['a broken file', 'server: { adress: ":1", workers: 0 } # &\n', {}],
  ['what is no YAML', 'server: [ # &', {}],
  [
    'variables, plain and from files',
    LONG,
    { SPILLGATE_ADMIN_TOKEN_FILE: 'x', SPILLGATE_SERVER_WORKERS: '2' },
  ],
])('%s: a thread finds what loadConfig() finds', async (_, text, env) => {
  const { originOf: _here, ...expected } = { originOf: undefined, ...loadConfig(source(text, env)) };

  const { originOf: _there, ...found } = {
    originOf: undefined,
    ...(await loadConfigInThread(source(text, env))),
  };

  expect(found).toEqual(expected);
});

test('a thread tells where each setting was written', async () => {
  const env = { SPILLGATE_SERVER_DRAIN_TIMEOUT: '5s' };
  const here = loadConfig(source(LONG, env));
  const there = await loadConfigInThread(source(LONG, env));
  if (!here.ok || !there.ok) throw new Error('both have to be valid');
  const paths = [
    ['backend', 'url'],
    ['rate_limit', 'rules', 0, 'match', 'path'],
    ['server', 'drain_timeout'],
    ['server', 'address'],
  ];

  const origins = paths.map((path) => there.originOf(path));

  expect(origins).toEqual(paths.map((path) => here.originOf(path)));
  expect(origins).toEqual([
    { from: 'file', file: 'a.yaml', line: 2, column: 17 },
    { from: 'file', file: 'a.yaml', line: 6, column: 35 },
    { from: 'env', name: 'SPILLGATE_SERVER_DRAIN_TIMEOUT' },
    { from: 'default' },
  ]);
});
