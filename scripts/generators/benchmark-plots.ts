// The plots of docs/benchmarks.md, from the figures of the page's last runs.

interface Bar {
  readonly name: string;
  readonly value: number;
  readonly ours?: boolean;
}

interface Plot {
  readonly title: string;
  readonly unit: string;
  readonly bars: readonly Bar[];
}

const SCRIPT_TIME: Plot = {
  title: "Redis' processor time per decision, 32 decisions per call",
  unit: 'us',
  bars: [
    { name: 'GET and SET in a loop, nothing decided', value: 3.3 },
    { name: 'token bucket', value: 4.6, ours: true },
    { name: 'token bucket, before the script was lean', value: 5.5 },
  ],
};

const LONE_SCRIPT_TIME: Plot = {
  title: "Redis' processor time per decision, one decision per call",
  unit: 'us',
  bars: [
    { name: 'GET and SET, nothing decided', value: 12.6 },
    { name: 'token bucket', value: 21.4, ours: true },
    { name: 'token bucket, before the script was lean', value: 28.6 },
  ],
};

const GATEWAY_TIME: Plot = {
  title: "A proxy's processor time per request",
  unit: 'us',
  bars: [
    { name: 'nginx, limit_req', value: 29 },
    { name: 'haproxy, stick-table', value: 31 },
    { name: 'Spillgate, limits in memory', value: 63, ours: true },
    { name: 'Spillgate, limits in Redis', value: 81, ours: true },
    { name: '@fastify/reply-from, no limits', value: 143 },
    { name: 'http-proxy-3, no limits', value: 301 },
  ],
};

const NAME_WIDTH = 300;
const BAR_WIDTH = 320;
const ROW_HEIGHT = 26;
const TOP = 36;

export const redisScriptPlot = (): string => svgOf(SCRIPT_TIME);
export const redisLoneScriptPlot = (): string => svgOf(LONE_SCRIPT_TIME);
export const gatewayPlot = (): string => svgOf(GATEWAY_TIME);

function svgOf({ title, unit, bars }: Plot): string {
  const most = Math.max(...bars.map(({ value }) => value));
  const height = TOP + bars.length * ROW_HEIGHT + 8;
  const width = NAME_WIDTH + BAR_WIDTH + 80;
  const rows = bars.map(({ name, value, ours = false }, at) => {
    const y = TOP + at * ROW_HEIGHT;
    const length = Math.round((value / most) * BAR_WIDTH);
    return [
      `  <text x="${NAME_WIDTH - 8}" y="${y + 15}" text-anchor="end">${name}</text>`,
      `  <rect x="${NAME_WIDTH}" y="${y + 2}" width="${length}" height="18" fill="${ours ? '#2563eb' : '#94a3b8'}"/>`,
      `  <text x="${NAME_WIDTH + length + 6}" y="${y + 15}">${value} ${unit}</text>`,
    ].join('\n');
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" font-family="sans-serif" font-size="12" role="img" aria-label="${title}">`,
    `  <rect width="${width}" height="${height}" fill="#ffffff"/>`,
    `  <text x="8" y="20" font-size="14" font-weight="bold">${title}</text>`,
    ...rows,
    '</svg>',
    '',
  ].join('\n');
}
