import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** In the order of use: a local function has to stand before its callers. */
const SHARED_PARTS: readonly string[] = [
  'packages/limiter/src/algorithms/prelude.lua',
  'packages/limiter/src/algorithms/bucket.lua',
  'packages/limiter/src/algorithms/token-bucket.lua',
  'packages/limiter/src/algorithms/leaky-bucket.lua',
  'packages/limiter/src/algorithms/fixed-window.lua',
  'packages/limiter/src/algorithms/sliding-window-log.lua',
  'packages/limiter/src/algorithms/sliding-window-counter.lua',
  'packages/limiter/src/stores/redis/frame.lua',
];
const SCRIPTS = {
  DECIDE: 'packages/limiter/src/stores/redis/decide.lua',
  REFUND: 'packages/limiter/src/stores/redis/refund.lua',
};

export const REDIS_SCRIPT_PARTS: readonly string[] = [...SHARED_PARTS, ...Object.values(SCRIPTS)];

/** The scripts that Redis runs, as a module, so that the library needs no files at run time. */
export function redisScriptModule(root: string): string {
  const shared = SHARED_PARTS.map((part) => readLua(root, part)).join('');
  return [
    '// Generated from the .lua files by `npm run generate`. Edit these instead.',
    '',
    `const SHARED: string = \`\\`,
    `${escaped(shared)}\`;`,
    '',
    ...Object.entries(SCRIPTS).flatMap(([name, path]) => scriptLines(name, shared, readLua(root, path))),
  ].join('\n');
}

function scriptLines(name: string, shared: string, own: string): string[] {
  const sha1 = createHash('sha1')
    .update(shared + own)
    .digest('hex');
  return [
    `export const ${name}_SHA1 = '${sha1}';`,
    '',
    `export const ${name}_SCRIPT: string = \`\${SHARED}\\`,
    `${escaped(own)}\`;`,
    '',
  ];
}

function readLua(root: string, path: string): string {
  return withoutComments(readFileSync(join(root, path), 'utf8'));
}

function escaped(lua: string): string {
  return lua.replaceAll('\\', '\\\\').replaceAll('`', '\\`').replaceAll('${', '\\${');
}

/** The server keeps the text of every script it was ever sent. */
function withoutComments(lua: string): string {
  return lua
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.trim().startsWith('--'))
    .map((line) => `${line}\n`)
    .join('');
}
