import type { Check } from './tree.ts';

/** Words that only stand where something was measured. */
const MEASURED = /\b(?:(?:was|were|as) measured|measured on|medians? of|p50|p95|p99|processor us)\b/i;
/** What somebody else can run to measure it again. */
const COMMAND = /npm run (?:bench|soak|torture|house)\b|spillgate bench\b/;

/** A figure that nobody can measure again is a rumour: pages with figures name the command that made them. */
export const figuresNameTheirCommand: Check = (files) =>
  files
    .filter(({ path }) => path.endsWith('.md') && path !== 'CHANGELOG.md')
    .filter(({ text }) => MEASURED.test(text) && !COMMAND.test(text))
    .map(({ path, text }) => {
      const line = text.slice(0, text.search(MEASURED)).split('\n').length;
      return `${path}:${line} tells what was measured, and the page names no command that measures it (npm run bench, soak, torture)`;
    });
