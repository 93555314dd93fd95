import type { Gateway } from '../runtime/gateway.ts';
import type { Host } from './host.ts';
import { paintFor } from './paint.ts';

/** What runs when nothing is configured: small enough that the limit is met within a few requests. */
export const DEMO_FILE = {
  path: 'demo.yaml',
  text: `rate_limit:
  average: 5
  period: "10s"
logging:
  format: pretty
  decision_log: "off"
`,
};

/** The first thing that a newcomer reads. Every line to try works as it is printed. */
export function welcome({
  host,
  version,
  gateway,
}: {
  readonly host: Host;
  readonly version: string;
  readonly gateway: Gateway;
}): string {
  const paint = paintFor(host.env, host.outputIsTerminal);
  const url = `http://localhost:${gateway.address().port}`;
  const admin = gateway.adminAddress();
  const adminUrl = admin === undefined ? undefined : `http://${hostText(admin)}:${admin.port}`;
  const { average = 0, period } = gateway.live().config.rate_limit;
  const limit =
    average === 0
      ? 'nothing is limited'
      : `every client may make ${average} requests, and gets one back every ${period / average / 1000} s`;
  const statuses = `for i in 1 2 3 4 5 6 7 8; do curl -s -o /dev/null -w '%{http_code}\\n' ${url}/; done`;
  const lines = [
    '',
    `  ${paint('bold', `Spillgate ${version}`)} is running in front of a small demonstration service.`,
    '',
    `  ${paint('bold', 'Gateway')}  ${paint('green', url)}   ${limit}`,
    ...(adminUrl === undefined
      ? []
      : [`  ${paint('bold', 'Admin')}    ${paint('green', adminUrl)}   health, metrics, limits`]),
    '',
    '  Try it in another terminal:',
    `    curl -i ${url}/hello ${paint('dim', '               # what the service saw, and how much is left')}`,
    `    ${statuses} ${paint('dim', ' # 200 until it is enough, then 429')}`,
    `    curl -i ${url}/hello ${paint('dim', '               # Retry-After says when to come back')}`,
    '',
    `  For your own service: ${paint('bold', 'spillgate init')}, set backend.url, then ${paint('bold', 'spillgate run --config spillgate.yaml')}`,
    `  ${paint('dim', 'Ctrl+C ends it.')}`,
    '',
    '',
  ];
  return lines.join('\n');
}

function hostText({ address, family }: { readonly address: string; readonly family: string }): string {
  if (address === '0.0.0.0' || address === '::') return 'localhost';
  return family === 'IPv6' ? `[${address}]` : address;
}
