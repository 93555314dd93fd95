// The service as a process of its own, which stands still, dies and comes back.
import { type ChildProcess, fork } from 'node:child_process';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { eventually } from '../../../../test/redis/servers.ts';
import { question, testSource, within } from './sources.ts';

const KIT = new URL('../../dist/external/limits-service/index.js', import.meta.url).href;
const PROGRAM = `
import { createLimitsService } from '${KIT}';
const [port, grpcPort] = process.argv.slice(2).map(Number);
const service = createLimitsService({ limits: () => ({ average: 100, burst: 50, period: '1s', cacheFor: '1s' }) });
const { url, grpcAddress } = await service.listen({ port, grpcPort });
process.on('disconnect', () => process.exit());
process.send({ url, grpcAddress });
`;
const TIMEOUT_MS = 1000;

interface Running {
  readonly child: ChildProcess;
  readonly url: string;
  readonly grpcAddress: string;
}

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

async function start(port = 0, grpcPort = 0): Promise<Running> {
  const program = join(await mkdtemp(join(tmpdir(), 'limits-')), 'service.mjs');
  await writeFile(program, PROGRAM);
  const child = fork(program, [String(port), String(grpcPort)]);
  children.push(child);
  const listening = await new Promise<Pick<Running, 'url' | 'grpcAddress'>>((resolve, reject) => {
    child.once('message', (message) => resolve(message as Running));
    child.once('exit', () => reject(new Error('the service ended by itself')));
  });
  return { child, ...listening };
}

function portOf(address: string): number {
  return Number(/:(\d+)/.exec(address.replace('http:', ''))?.[1]);
}

test.each(['http', 'grpc'] as const)('over %s: standing still, dying and coming back', async (protocol) => {
  const clock = { ms: 0 };
  const first = await start();
  const external =
    protocol === 'http' ? { http: { url: first.url } } : { grpc: { address: first.grpcAddress } };
  const { source, told } = testSource(
    { external: { timeout: `${TIMEOUT_MS}ms`, circuit_breaker: { reset_timeout: '1s' }, ...external } },
    { now: () => clock.ms },
  );
  const ask = async (key: string) => {
    // Every answer has run out, and every silence after a failure too.
    clock.ms += 6000;
    const { step } = await within(TIMEOUT_MS + 500, source.limitsFor(question(key)));
    return step;
  };
  await eventually('the service is reached', async () => (await ask('a')) === 'service');

  first.child.kill('SIGSTOP');
  expect([await ask('a'), await ask('new')]).toEqual(['stale', 'static']);
  expect(told.calls.slice(-2)).toEqual(['timeout', 'timeout']);
  first.child.kill('SIGCONT');
  await eventually('it answers again', async () => (await ask('a')) === 'service');

  first.child.kill('SIGKILL');
  await eventually(
    'it is gone',
    async () => (await ask('a')) === 'stale' && told.calls.at(-1) === 'unreachable',
  );
  expect(await ask('another')).toBe('static');

  await start(portOf(first.url), portOf(first.grpcAddress));
  await eventually('the next one answers', async () => (await ask('a')) === 'service');
  await source.close();
});
