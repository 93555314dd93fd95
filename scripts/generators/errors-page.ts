import { ERRORS } from '#limiter/errors.js';

/** The reference page of error codes, from the table that the library throws from. */
export function errorsPage(): string {
  const sections = Object.entries(ERRORS).map(
    ([code, { cause, remedy }]) => `## ${code}\n\n${cause}\n\n**What to do:** ${remedy}\n`,
  );
  return [
    '<!-- Generated from packages/limiter/src/errors.ts by `npm run generate`. Edit that file instead. -->',
    '',
    '# Errors',
    '',
    'Spillgate reports programming errors and failures of a store as a `LimiterError` with one of these codes in its',
    '`code` property. A denied request is not an error: it is a decision whose `allowed` is `false`.',
    '',
    sections.join('\n'),
  ].join('\n');
}
