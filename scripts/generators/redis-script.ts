import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const SOURCE = 'packages/limiter/src';

/** In the order of use: a local function has to stand before its callers. */
const PARTS = [
  'algorithms/prelude.lua',
  'algorithms/bucket.lua',
  'algorithms/token-bucket.lua',
  'algorithms/leaky-bucket.lua',
  'algorithms/fixed-window.lua',
  'algorithms/sliding-window-log.lua',
  'algorithms/sliding-window-counter.lua',
  'stores/redis/decide.lua',
];

/** The script that Redis runs, as a module, so that the library needs no files at run time. */
export function redisScriptModule(root: string): string {
  const script = PARTS.map((part) => withoutComments(readFileSync(join(root, SOURCE, part), 'utf8'))).join(
    '',
  );
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
