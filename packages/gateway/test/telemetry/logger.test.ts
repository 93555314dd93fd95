import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { configOf } from '../admin/running-admin.ts';
import { secretsOf } from '../../src/config/effective.ts';
import { wantsColour } from '../../src/cli/host.ts';
import { createLogger, type Logger, type LoggerParts } from '../../src/telemetry/logger.ts';
import { finished } from './finished.ts';

const SETTINGS = { level: 'info', format: 'json', access_log_enabled: true, decision_log: 'denied' } as const;

// oxlint-disable-next-line no-control-regex -- they are what must not be there
const UNSAFE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;

interface Written {
  readonly logger: Logger;
  readonly text: () => string;
  readonly lines: () => readonly Record<string, unknown>[];
}

function logger(settings: Partial<LoggerParts['config']> = {}, colours = false, terminal = false): Written {
  let text = '';
  const made = createLogger({
    config: { ...SETTINGS, ...settings },
    colours,
    terminal,
    output: (bytes, done) => {
      text += Buffer.from(bytes).toString();
      done(null, bytes.length);
    },
  });
  return {
    logger: made,
    text: () => text,
    lines: () =>
      text
        .split('\n')
        .slice(0, -1)
        .map((line) => z.record(z.string(), z.unknown()).parse(JSON.parse(line))),
  };
}

describe('a line', () => {
  test('is JSON with level, time and message', () => {
    const { logger: log, lines } = logger();

    log.info({ port: 8080 }, 'listening');

    expect(lines()).toEqual([
      { level: 'info', time: expect.stringMatching(/^\d{4}-.*Z$/), port: 8080, msg: 'listening' },
    ]);
  });

  test('below the level is not written, and the level can change', () => {
    const { logger: log, lines } = logger({ level: 'warn' });
    log.info({}, 'no');
    log.warn({}, 'yes');
    log.configure({ ...SETTINGS, level: 'debug' });
    log.debug({}, 'now');

    expect(lines().map(({ msg }) => msg)).toEqual(['yes', 'now']);
  });

  test('is one line whatever it is about, in both formats', () => {
    for (const format of ['json', 'pretty'] as const) {
      const { logger: log, text } = logger({ format });

      log.warn({ key: 'a\nb\u001b[31m\u202e\u2028\u009b' }, 'odd\r\nkey \u001b[2J');

      expect(text().split('\n')).toHaveLength(2);
      expect(text()).not.toMatch(UNSAFE);
    }
  });

  test('has no control character and no line break inside, whatever texts it is made of', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: 'binary' }),
        fc.string({ unit: 'binary' }),
        async (value, message) => {
          for (const format of ['json', 'pretty'] as const) {
            const { logger: log, text } = logger({ format });
            log.info({ value }, `x${message}`);
            log.access(finished({ path: value, host: message }));
            await log.flush();

            expect(text().split('\n')).toHaveLength(3);
            expect(text()).not.toMatch(UNSAFE);
          }
        },
      ),
    );
  });

  test('of JSON means what was logged', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (value) => {
        const { logger: log, lines } = logger();

        log.info({ value }, 'message');

        expect(lines()).toMatchObject([{ value, msg: 'message' }]);
      }),
    );
  });

  test('with an error shows its stack to people on lines of its own', () => {
    const { logger: log, text } = logger({ format: 'pretty' });

    log.error({ err: new Error('boom') }, 'it failed');

    expect(text()).toMatch(/ERROR: it failed.*\n.*Error: boom\n +at /s);
  });

  test('is readable on a terminal and JSON in a pipe, unless somebody wants another', () => {
    const written = (format: LoggerParts['config']['format'], terminal: boolean): string => {
      const { logger: log, text } = logger({ format }, false, terminal);
      log.info({}, 'hello');
      return text();
    };

    expect(written('auto', true)).toMatch(/^\[[\d:.]+\] INFO: hello\n$/);
    expect(JSON.parse(written('auto', false))).toMatchObject({ msg: 'hello' });
    expect(JSON.parse(written('json', true))).toMatchObject({ msg: 'hello' });
    expect(written('pretty', false)).toMatch(/INFO: hello\n$/);
  });

  test('has colours only where they are wanted', () => {
    const [plain, painted] = [logger({ format: 'pretty' }), logger({ format: 'pretty' }, true)];
    plain.logger.info({}, 'hello');
    painted.logger.info({}, 'hello');

    expect(plain.text()).toMatch(/^\[\d\d:\d\d:\d\d\.\d{3}\] INFO: hello\n$/);
    expect(painted.text()).toContain('\u001b[3');
  });

  test.each([
    [{}, true, true],
    [{}, false, false],
    [{ NO_COLOR: '1' }, true, false],
    [{ NO_COLOR: '' }, true, true],
    [{ NO_COLOR: '1', FORCE_COLOR: '1' }, true, false],
    [{ FORCE_COLOR: '1' }, false, true],
    [{ FORCE_COLOR: '0' }, false, false],
    [{ TERM: 'dumb' }, true, false],
  ])('with %j and a terminal: %j, colours: %j', (env, isTerminal, expected) => {
    expect(wantsColour(env, isTerminal)).toBe(expected);
  });
});

describe('secrets', () => {
  test('are masked wherever they appear', () => {
    const { config } = configOf(
      'admin:\n  token: planted-token-123\nredis:\n  endpoints: ["a:1"]\n  password: planted-password\n',
    );
    const { logger: log, text } = logger();
    log.hide(secretsOf(config));

    log.error({ err: new Error('AUTH planted-password failed') }, 'redis');
    log.info({ url: 'redis://u:planted-password@a' }, 'token planted-token-123');
    log.access(finished({ path: '/planted-token-123' }));

    expect(secretsOf(config)).toEqual(expect.arrayContaining(['planted-token-123', 'planted-password']));
    expect(text()).not.toContain('planted');
    expect(text().match(/\*{8}/g)?.length).toBeGreaterThanOrEqual(4);
  });

  test('are masked however they are spelled', () => {
    const secret = 'plan"ted\\pass/wörd';
    const { logger: log, text } = logger();
    log.hide([secret]);

    log.info(
      {
        direct: secret,
        quoted: JSON.stringify({ secret }),
        url: `redis://u:${encodeURIComponent(secret)}@a`,
      },
      secret,
    );

    expect(text()).not.toMatch(/plan|pass/);
    expect(text().match(/\*{8}/g)).toHaveLength(4);
  });

  test.each(['authorization', 'cookie', 'password', 'secret', 'token'])(
    'a field %s is never shown',
    (name) => {
      const { logger: log, text } = logger();

      log.info({ [name]: 'planted', headers: { [name]: 'planted' } }, 'request');

      expect(text()).not.toContain('planted');
    },
  );
});

describe('the access log', () => {
  test('has a line per request', () => {
    const { logger: log, lines } = logger({ level: 'error' });

    log.access(finished({ traceId: 'abc' }));

    expect(lines()).toEqual([
      {
        level: 'info',
        time: expect.any(String),
        id: 'request-1',
        at: expect.any(Number),
        outcome: 'forwarded',
        client: '203.0.113.7',
        method: 'GET',
        scheme: 'http',
        host: 'api.example',
        path: '/items',
        protocol: 'HTTP/1.1',
        status: 200,
        rule: 'items',
        upstream: 'http://10.0.0.1:3000',
        received: 0,
        sent: 10,
        ms: 12.346,
        upstreamMs: 10,
        traceId: 'abc',
        msg: 'request',
      },
    ]);
  });

  test('can be off', () => {
    const { logger: log, text } = logger({ access_log_enabled: false });

    log.access(finished());

    expect(text()).toBe('');
  });

  test('what a client sent is bounded and escaped', () => {
    const { logger: log, lines, text } = logger();

    log.access(finished({ path: `/${'x'.repeat(2 ** 20)}`, host: 'a"b\\c', method: 'GET\r\n\u001b' }));

    expect(text().length).toBeLessThan(2000);
    expect(lines()).toMatchObject([
      {
        path: expect.stringMatching(/^\/x{1023}\.\.\. \(1048577 characters\)$/),
        host: 'a"b\\c',
        method: 'GET\\u000d\\u000a\\u001b',
      },
    ]);
  });
});

test('a decision is a line whatever the level is', () => {
  const { logger: log, lines } = logger({ level: 'error' });

  log.decision({ outcome: 'denied', keys: ['ann'], policy: 'api', rule: undefined });

  expect(lines()).toEqual([
    {
      level: 'info',
      time: expect.any(String),
      outcome: 'denied',
      keys: ['ann'],
      policy: 'api',
      msg: 'decision',
    },
  ]);
});
