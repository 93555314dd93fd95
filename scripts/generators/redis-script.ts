import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** In the order of use: a local function has to stand before its callers. */
export const REDIS_SCRIPT_PARTS: readonly string[] = [
  'packages/limiter/src/algorithms/prelude.lua',
  'packages/limiter/src/algorithms/bucket.lua',
  'packages/limiter/src/algorithms/token-bucket.lua',
  'packages/limiter/src/algorithms/leaky-bucket.lua',
  'packages/limiter/src/algorithms/fixed-window.lua',
  'packages/limiter/src/algorithms/sliding-window-log.lua',
  'packages/limiter/src/algorithms/sliding-window-counter.lua',
  'packages/limiter/src/stores/redis/decide.lua',
];

/** The script that Redis runs, as a module, so that the library needs no files at run time. */
export function redisScriptModule(root: string): string {
  const script = REDIS_SCRIPT_PARTS.map((part) =>
    withoutComments(readFileSync(join(root, part), 'utf8')),
  ).join('');
  const sha1 = createHash('sha1').update(script).digest('hex');
  return [
    '// Generated from the .lua files by `npm run generate`. Edit these instead.',
    '',
    `export const DECIDE_SHA1 = '${sha1}';`,
    '',
    `export const DECIDE_SCRIPT: string = \`\\`,
    `${script.replaceAll('\\', '\\\\').replaceAll('`', '\\`').replaceAll('${', '\\${')}\`;`,
    '',
  ].join('\n');
}

/** The server keeps the text of every script it was ever sent. */
function withoutComments(lua: string): string {
  return lua
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.trim().startsWith('--'))
    .map((line) => `${line}\n`)
    .join('');
}
