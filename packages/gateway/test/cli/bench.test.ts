import { createServer, type RequestListener, type Server } from 'node:http';
import { afterEach, describe, expect, test } from 'vitest';
import { LatencyRecord } from '../../src/cli/bench/load.ts';
import { spillgate } from './terminal.ts';

const servers: Server[] = [];

afterEach(async () => {
  await Promise.all(
    servers.splice(0).map((server) => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    }),
  );
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
}

async function benched(url: string, ...options: readonly string[]): Promise<Record<string, unknown>> {
  const { stdout } = await spillgate(['bench', url, '--duration', '300ms', '--json', ...options]);
  const summary: unknown = JSON.parse(stdout);
  if (typeof summary !== 'object' || summary === null) throw new Error(stdout);
  return { ...summary };
}

describe('spillgate bench', () => {
  test('counts every answer, and those that were limited', async () => {
    let asked = 0;
    const url = await serve((_, response) => {
      asked += 1;
      response.writeHead(asked % 2 === 0 ? 429 : 200).end('x');
    });

    const summary = await benched(`${url}/path?secret=1`, '--connections', '3');

    expect(summary).toMatchObject({
      url: `${url}/path`,
      sent: asked,
      answered: asked,
      limited: Math.floor(asked / 2),
      failed: 0,
      statuses: { 200: asked - Math.floor(asked / 2), 429: Math.floor(asked / 2) },
    });
    // Each connection asks at least once, however slow the machine is.
    expect(asked).toBeGreaterThanOrEqual(3);
  });

  test('sends what it is told', async () => {
    const seen = new Set<string>();
    const url = await serve((request, response) => {
      request.setEncoding('utf8').on('data', (body: string) => {
        seen.add(`${request.method} ${request.url} ${String(request.headers['x-tenant'])} ${body}`);
        response.end();
      });
    });

    await benched(`${url}/a?b=c`, '--method', 'POST', '--header', 'X-Tenant: acme', '--body', 'hello');

    expect([...seen]).toEqual(['POST /a?b=c acme hello']);
  });

  test('never sends more than the rate', async () => {
    const url = await serve((_, response) => response.end());

    const { sent, generatorBusy } = await benched(url, '--rate', '100');

    // 300 ms at 100 per second; fewer where the machine is too busy to send in time.
    expect(sent).toSatisfy((count: number) => count > 0 && count <= 30);
    expect(generatorBusy).toSatisfy((share: number) => share > 0 && share <= 1);
  });

  test('a latency counts from when the request was due', async () => {
    // One connection, 40 ms per answer, one due every 10 ms: the last one waits for all before it.
    const url = await serve((_, response) => setTimeout(() => response.end(), 40));

    const { latencyMs } = await benched(url, '--rate', '100', '--connections', '1');

    expect(latencyMs).toMatchObject({ max: expect.toSatisfy((ms: number) => ms > 150) });
  });

  test('says that a rate was not held', async () => {
    const url = await serve((_, response) => setTimeout(() => response.end(), 50));

    const { stdout } = await spillgate([
      'bench',
      url,
      '--duration',
      '300ms',
      '--rate',
      '200',
      '--connections',
      '1',
    ]);

    expect(stdout).toMatch(/The rate was not held/);
  });

  test('a server that is not there is a failure', async () => {
    const url = await serve((_, response) => response.end());
    await new Promise((resolve) => servers.splice(0)[0]?.close(resolve));

    const { exitCode, stdout } = await spillgate(['bench', url, '--duration', '100ms']);

    expect(exitCode).toBe(2);
    expect(stdout).toMatch(/failed {6}ECONNREFUSED \d+/);
  });

  test('where nobody answered there are no latencies and no rate, and it says so', async () => {
    const url = await serve((_, response) => response.end());
    await new Promise((resolve) => servers.splice(0)[0]?.close(resolve));

    const { stdout } = await spillgate(['bench', url, '--duration', '100ms', '--rate', '1000']);

    expect(stdout).toMatch(/: no answer in [\d.]+ s/);
    expect(stdout).not.toMatch(/latency|requests\/s|limited|statuses|rate was not held|Latencies/);
    expect(await benched(url)).toMatchObject({ answered: 0, latencyMs: null });
  });

  test('an interrupt ends it, and shows what was measured until then', async () => {
    const interrupts: (() => void)[] = [];
    let asked = 0;
    const url = await serve((_, response) => {
      asked += 1;
      // The last one is never answered: nobody waits for it.
      if (asked <= 20) response.end();
      else for (const interrupt of interrupts) interrupt();
    });

    const { exitCode, stdout } = await spillgate(['bench', url, '--duration', '1h', '--connections', '1'], {
      onSignal: (signal, listener) => signal === 'SIGINT' && interrupts.push(listener),
    });

    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/: 20 answers in [\d.]+ s/);
    expect(stdout).toMatch(/Interrupted/);
    expect(stdout).not.toMatch(/failed/);
  });

  test.each([
    [['nonsense'], /URL is "nonsense"/],
    [['http://x', '--connections', '0'], /from 1 to 1000/],
    [['http://x', '--connections', '1001'], /from 1 to 1000/],
    [['http://x', '--rate', '-5'], /from 1 to 1000000/],
    [['http://x', '--duration', '2h'], /--duration/],
    [['http://x', '--header', 'no colon'], /expected "Name: value"/],
    [['http://x', '--header', 'a: b\r\nc: d'], /expected "Name: value"/],
    [['http://x', '--method', 'get it'], /--method/],
  ])('%j is wrong usage', async (args, message) => {
    const { exitCode, stderr } = await spillgate(['bench', ...args]);

    expect(exitCode).toBe(2);
    expect(stderr).toMatch(message);
  });
});

describe('the record of latencies', () => {
  test('percentiles are right to a hundredth', () => {
    const record = new LatencyRecord();
    for (let ms = 1; ms <= 1000; ms += 1) record.add(ms);

    expect(record.percentile(0.5) / 500).toBeCloseTo(1, 1.7);
    expect(record.percentile(0.99) / 990).toBeCloseTo(1, 1.7);
    expect(record.percentile(1)).toBe(1000);
    expect(record.maxMs).toBe(1000);
  });

  test('knows nothing of no requests', () => {
    expect(new LatencyRecord().percentile(0.99)).toBe(0);
  });

  test('takes what no clock would show', () => {
    const record = new LatencyRecord();
    record.add(0);
    record.add(1e9);

    expect([record.count, record.maxMs]).toEqual([2, 1e9]);
  });
});
