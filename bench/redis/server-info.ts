/** A number from the text that INFO answers. */
export function numberField(info: string, name: string): number {
  const line = info.split('\r\n').find((candidate) => candidate.startsWith(`${name}:`));
  const value = line === undefined ? Number.NaN : Number(line.slice(name.length + 1) || Number.NaN);
  if (Number.isNaN(value)) throw new Error(`INFO tells no number for ${name}.`);
  return value;
}

/** How often clients have called a script or a function so far, by the counts of `INFO commandstats`. */
export function scriptCalls(info: string): number {
  const counts = info.matchAll(/^cmdstat_(?:eval|evalsha|fcall):calls=(\d+),/gm);
  return [...counts].reduce((sum, [, calls]) => sum + Number(calls), 0);
}
