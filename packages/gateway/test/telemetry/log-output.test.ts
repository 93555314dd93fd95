import { execFile, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { createLogger } from '../../src/telemetry/logger.ts';
import { finished } from './finished.ts';

const SETTINGS = {
  level: 'info',
  format: 'json',
  access_log_enabled: true,
  decision_log: 'denied',
} as const;

describe('an output that fails', () => {
  test('a reader that is slow gets everything later', async () => {
    let busy = true;
    let text = '';
    const log = createLogger({
      config: SETTINGS,
      output: (bytes, done) => {
        if (busy) {
          done(Object.assign(new Error('busy'), { code: 'EAGAIN' }), 0);
          return;
        }
        text += Buffer.from(bytes.subarray(0, 7)).toString();
        done(null, Math.min(7, bytes.length));
      },
    });
    log.info({}, 'first');
    log.info({}, 'second');
    busy = false;
    await log.flush();

    expect(text).toMatch(/^\{.*first"\}\n\{.*second"\}\n$/);
    expect(log.dropped()).toBe(0);
  });

  test('gets whole lines in writes that a pipe takes as a whole', async () => {
    const writes: string[] = [];
    const log = createLogger({
      config: SETTINGS,
      output: (bytes, done) => {
        writes.push(Buffer.from(bytes).toString());
        setImmediate(done, null, bytes.length);
      },
    });
    for (let at = 0; at < 100; at += 1) log.info({ at, text: 'ä'.repeat(200) }, 'line');
    log.info({ text: 'x'.repeat(10_000) }, 'long');
    log.info({}, 'last');

    await log.flush();

    expect(writes.length).toBeGreaterThan(5);
    expect(writes.every((text) => text.endsWith('\n'))).toBe(true);
    expect(writes.filter((text) => Buffer.byteLength(text) > 4096)).toEqual([
      expect.stringMatching(/^.*"long"\}\n$/),
    ]);
    expect(writes.join('').split('\n')).toHaveLength(103);
    expect(log.dropped()).toBe(0);
  });

  test('a process that writes alone writes more at once, and loses fewer lines', async () => {
    const writes: string[] = [];
    const log = createLogger({
      config: SETTINGS,
      shared: false,
      output: (bytes, done) => {
        writes.push(Buffer.from(bytes).toString());
        setImmediate(done, null, bytes.length);
      },
    });
    for (let at = 0; at < 2000; at += 1) log.decision({ at, text: 'x'.repeat(100) });

    await log.flush();

    expect(writes.every((text) => text.endsWith('\n') && text.length <= 65_536)).toBe(true);
    expect(writes.length).toBeLessThan(10);
    expect(writes.join('').split('\n')).toHaveLength(2001);
    expect(log.dropped()).toBe(0);
  });

  test('a line that nobody will take is not even made', () => {
    const log = createLogger({ config: SETTINGS, output: () => undefined });
    let read = 0;
    const record = {
      get text() {
        read += 1;
        return 'x'.repeat(1000);
      },
    };

    for (let at = 0; at < 2000; at += 1) log.decision(record);

    expect(read).toBeGreaterThan(900);
    expect(read).toBeLessThan(1100);
    expect(log.dropped()).toBeGreaterThanOrEqual(2000 - read);
  });

  test('a line that is longer than all that may wait is lost alone', async () => {
    let text = '';
    const log = createLogger({
      config: SETTINGS,
      output: (bytes, done) => {
        text += Buffer.from(bytes).toString();
        done(null, bytes.length);
      },
    });
    log.error({ text: 'x'.repeat(2_000_000) }, 'too long');

    log.decision({ text: 'short' });
    await log.flush();

    expect(text).toContain('short');
    expect(log.dropped()).toBe(1);
  });

  test('a pipe that is closed is not written to again', async () => {
    let writes = 0;
    const log = createLogger({
      config: SETTINGS,
      output: (_, done) => {
        writes += 1;
        done(Object.assign(new Error('closed'), { code: 'EPIPE' }), 0);
      },
    });

    for (let at = 0; at < 100; at += 1) log.info({}, 'line');
    await log.flush();

    expect([writes, log.dropped()]).toEqual([1, 100]);
  });

  test('a disk that is full loses lines until there is room again', async () => {
    let full = true;
    let text = '';
    const log = createLogger({
      config: SETTINGS,
      output: (bytes, done) => {
        if (full) {
          done(Object.assign(new Error('full'), { code: 'ENOSPC' }), 0);
          return;
        }
        text += Buffer.from(bytes).toString();
        done(null, bytes.length);
      },
    });
    log.info({}, 'lost');
    full = false;
    log.info({}, 'kept');
    await expect.poll(() => text, { timeout: 3000 }).toContain('kept');

    expect([text.includes('lost'), log.dropped()]).toEqual([false, 1]);
  });

  test('a reader that stopped costs a bounded amount of memory', () => {
    const log = createLogger({ config: SETTINGS, output: () => undefined });

    for (let at = 0; at < 20_000; at += 1) log.access(finished());

    // A line has some 330 characters, and a mebibyte is kept.
    expect(20_000 - log.dropped()).toBeGreaterThan(2000);
    expect(20_000 - log.dropped()).toBeLessThan(4000);
  });

  test('flush waits for a bounded time', async () => {
    const log = createLogger({ config: SETTINGS, output: () => undefined });
    log.info({}, 'stuck');
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const ended = vi.fn<() => void>();
    void log.flush().then(ended);

    await vi.advanceTimersByTimeAsync(1000);

    expect(ended).toHaveBeenCalledOnce();
  });
});

describe('lines of requests', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  /** Writes as lists of what their lines are about. */
  function gathering(): { readonly log: ReturnType<typeof createLogger>; readonly writes: string[][] } {
    const writes: string[][] = [];
    const log = createLogger({
      config: SETTINGS,
      output: (bytes, done) => {
        const lines = Buffer.from(bytes).toString().split('\n').slice(0, -1);
        writes.push(lines.map((line) => /"(?:path|msg)":"(\/?\w+)"/.exec(line)?.[1] ?? line));
        done(null, bytes.length);
      },
    });
    return { log, writes };
  }

  test('after a pause are written at once, and what follows them together', () => {
    const { log, writes } = gathering();

    for (const path of ['/1', '/2', '/3']) log.access(finished({ path }));

    expect(writes).toEqual([['/1']]);
    vi.advanceTimersByTime(9);
    expect(writes).toEqual([['/1']]);
    vi.advanceTimersByTime(1);
    expect(writes).toEqual([['/1'], ['/2', '/3']]);
  });

  test('do not hold up other lines, which take them along in order', () => {
    const { log, writes } = gathering();
    for (const path of ['/1', '/2']) log.access(finished({ path }));

    log.warn({}, 'warning');
    log.access(finished({ path: '/3' }));

    expect(writes).toEqual([['/1'], ['/2', 'warning']]);
  });

  test('do not wait for more than fits into one write', () => {
    const { log, writes } = gathering();

    for (let at = 0; at < 100; at += 1) log.access(finished({ path: '/1' }));

    const written = writes.flat().length;
    expect(writes.length).toBeLessThan(12);
    expect(written).toBeGreaterThan(80);
  });

  test('are all out when somebody waits for them', async () => {
    const { log, writes } = gathering();
    for (const path of ['/1', '/2']) log.access(finished({ path }));

    await log.flush();

    expect(writes).toEqual([['/1'], ['/2']]);
  });
});

describe('the standard output of a process', () => {
  const LOGGER = fileURLToPath(new URL('../../dist/telemetry/logger.js', import.meta.url));
  const program = (body: string): string[] => [
    '--input-type=module',
    '-e',
    `import { createLogger } from ${JSON.stringify(LOGGER)};
     const log = createLogger({ config: ${JSON.stringify(SETTINGS)} });
     ${body}`,
  ];

  test('gets every line before the end', async () => {
    const body = `for (let at = 0; at < 5000; at += 1) log.info({ at }, 'line'); await log.flush();`;

    const { stdout } = await promisify(execFile)(process.execPath, program(body), { maxBuffer: 2 ** 24 });

    expect(stdout.split('\n')).toHaveLength(5001);
  });

  test('closed by its reader, it does not end the process', async () => {
    const body = `
      const timer = setInterval(() => log.info({}, 'line'), 5);
      setTimeout(() => { clearInterval(timer); process.stderr.write('dropped ' + log.dropped()); }, 500);`;
    const child = spawn(process.execPath, program(body), { stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.once('data', () => child.stdout.destroy());

    const { code, stderr } = await endOf(child);

    expect(code).toBe(0);
    expect(stderr).toMatch(/^dropped [1-9]\d*$/);
  });

  test('not read by anybody, it does not keep the process from ending', async () => {
    const body = `
      for (let at = 0; at < 20000; at += 1) log.info({ at }, 'line');
      setTimeout(async () => { await log.flush(); process.exit(7); }, 100);`;
    const child = spawn(process.execPath, program(body), { stdio: ['ignore', 'pipe', 'pipe'] });

    expect((await endOf(child)).code).toBe(7);
  });

  test('a pipe of a shell that nobody reads does not either', async () => {
    const body = `
      for (let at = 0; at < 20000; at += 1) log.info({ at }, 'line');
      setTimeout(async () => { await log.flush(); process.exit(7); }, 100);`;
    const child = spawn(
      'sh',
      ['-c', '("$0" "$@"; echo "code $?" >&2) | sleep 4', process.execPath, ...program(body)],
      {
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );

    expect((await endOf(child)).stderr).toBe('code 7\n');
  });

  test('full, it does not end the process', async () => {
    const body = `
      log.info({}, 'line');
      setTimeout(() => process.stderr.write('dropped ' + log.dropped()), 300);`;
    const child = spawn('sh', ['-c', 'exec "$0" "$@" > /dev/full', process.execPath, ...program(body)], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });

    expect(await endOf(child)).toEqual({ code: 0, stderr: 'dropped 1' });
  });
});

function endOf(child: ReturnType<typeof spawn>): Promise<{ code: number | null; stderr: string }> {
  let stderr = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  return new Promise((resolve) => {
    // Not `close`: that waits for a standard output that nobody reads.
    child.once('exit', (code) => resolve({ code, stderr }));
  });
}
