// Asks a model through the gateway until its budget is spent, and shows what was charged.
import { spawn, type ChildProcess } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { startProvider } from './fake-provider.ts';

/** One line of the gateway's access log, as far as it is shown here. */
interface AccessLine {
  readonly msg: string;
  readonly port?: number;
  readonly path?: string;
  readonly status?: number;
  readonly reason?: string;
  readonly cost?: number;
  readonly costEstimated?: boolean;
}

const program = join(
  dirname(createRequire(import.meta.url).resolve('spillgate-gateway/package.json')),
  'dist/main.js',
);
const config = new URL('../../llm/gateway.yaml', import.meta.url).pathname;

const provider = await startProvider();
const gateway: ChildProcess = spawn(process.execPath, [program, 'run', '--config', config], {
  env: { ...process.env, SPILLGATE_BACKEND_URL: provider.url },
  stdio: ['ignore', 'pipe', 'inherit'],
});
if (gateway.stdout === null) throw new Error('the gateway has no output');
const lines: AccessLine[] = [];
let heard = (): void => undefined;
createInterface(gateway.stdout).on('line', (line) => {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the gateway logs JSON
  lines.push(JSON.parse(line) as AccessLine);
  heard();
});

/** The first line behind `from` that fits, now or later. */
async function lineWhere(fits: (line: AccessLine) => boolean, from = 0): Promise<AccessLine> {
  for (;;) {
    const found = lines.slice(from).find(fits);
    if (found !== undefined) return found;
    await new Promise<void>((resolve) => {
      heard = resolve;
    });
  }
}

async function ask(path: string, model: string, tokens: number, stream: boolean): Promise<void> {
  const from = lines.length;
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Api-Key': 'ann' },
    body: JSON.stringify({
      model,
      max_tokens: tokens,
      stream,
      messages: [{ role: 'user', content: 'Hello there' }],
    }),
  });
  const text = await response.text();
  const { cost = 0, costEstimated = false } = await lineWhere(({ path: asked }) => asked === path, from);
  const isCut = text.includes('rate_limit_error');
  const charged = isCut ? 'ended by the gateway, the budget is spent' : `${cost} tokens charged`;
  const kind = stream ? 'streamed' : 'whole';
  process.stdout.write(
    `${path} ${model}, ${kind}: ${response.status}, ${response.ok ? charged : 'refused'}${costEstimated ? ' (estimated)' : ''}\n`,
  );
}

const { port = 0 } = await lineWhere((line) => line.port !== undefined);
const url = `http://127.0.0.1:${port}`;
await ask('/v1/chat/completions', 'small', 50, false);
await ask('/v1/chat/completions', 'small', 50, true);
await ask('/v1/messages', 'small', 50, false);
await ask('/v1/messages', 'small', 50, true);
await ask('/v1/messages', 'small', 400, true);
await ask('/v1/messages', 'large', 400, false);

gateway.kill('SIGTERM');
provider.close();
