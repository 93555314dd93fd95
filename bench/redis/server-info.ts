/** A number from the text that INFO answers. */
export function numberField(info: string, name: string): number {
  const line = info.split('\r\n').find((candidate) => candidate.startsWith(`${name}:`));
  const value = line === undefined ? Number.NaN : Number(line.slice(name.length + 1) || Number.NaN);
  if (Number.isNaN(value)) throw new Error(`INFO tells no number for ${name}.`);
  return value;
}
