import { vi } from 'vitest';

/** Every series that was exposed, as `name{labels}`, with its value. */
export type Series = ReadonlyMap<string, number>;

/** Reads the text that Prometheus scrapes. */
export async function exposed(registry: { metrics(): Promise<string> }): Promise<Series> {
  const lines = (await registry.metrics()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => {
      const end = line.lastIndexOf(' ');
      return [line.slice(0, end), Number(line.slice(end + 1))];
    }),
  );
}

/** The series of one metric, without its name. */
export function only(series: Series, name: string): Readonly<Record<string, number>> {
  return Object.fromEntries(
    [...series]
      .filter(([key]) => key.startsWith(`${name}{`))
      .map(([key, value]) => [key.slice(name.length), value]),
  );
}

/** Makes every decision take the same time. */
export function stopTheStopwatch(tookMs: number = 0): void {
  let looks = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => {
    looks += 1;
    return looks % 2 === 1 ? 0 : tookMs;
  });
}
