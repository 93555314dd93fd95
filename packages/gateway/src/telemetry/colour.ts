/** Colours for terminals; plain text where `NO_COLOR` is set (https://no-color.org) or nobody watches. */
export function wantsColour(env: Readonly<Record<string, string | undefined>>, isTerminal: boolean): boolean {
  const plain = (env['NO_COLOR'] ?? '') !== '' || env['TERM'] === 'dumb';
  const forced = (env['FORCE_COLOR'] ?? '0') !== '0';
  return !plain && (isTerminal || forced);
}
