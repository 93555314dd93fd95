// Every format reads a line out of its bytes as it reads its text, or leaves it to that.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { asciiText } from '../../src/simulate/formats/interned-texts.ts';
import { ACCESS_LOG_FORMATS } from '../../src/simulate/formats/index.ts';
import type { AccessLogFormat, LoggedRequest } from '../../src/simulate/logged-request.ts';

const LINES: Readonly<Record<string, readonly string[]>> = {
  combined: [
    '203.0.113.7 - - [10/Oct/2026:06:55:36 -0700] "GET /a?b=c HTTP/1.1" 200 2326 "http://www.example.com/" "curl \\"8\\""',
    '2001:db8::1 - - [10/Oct/2026:06:55:36 -0700] "M-SEARCH /%41 HTTP/2.0" 404 -',
    'shop.example:443 203.0.113.7 - - [10/Oct/2026:06:55:36 -0700] "POST / HTTP/1.1" 200 0',
    '203.0.113.7 - frank [10/Oct/2026:06:55:36 +0000] "GET /a" 200 1',
  ],
  alb: [
    'h2 2026-10-10T13:55:37.500000Z app/lb/1 203.0.113.7:2817 10.0.0.1:80 0.500 1.000 -1 200 200 34 366 "GET https://api.example.com:443/a?b=c HTTP/2.0" "curl/8" ECDHE TLSv1.2 arn "Root=1"',
    'wss 2026-10-10T13:55:37Z app/lb/1 [2001:db8::1]:2817 - -1 -1 -1 101 - 0 0 "GET wss://api.example.com:443/ HTTP/1.1" "-" - - arn',
    'http 2026-10-10T13:55:37.5Z app/lb/1 203.0.113.7:2817 10.0.0.1:80 1.2.3 1 1 200 200 34 366 "GET http://x?a=b HTTP/1.1" "é"',
  ],
  caddy: [
    '{"level":"info","ts":1791640538.25,"logger":"a","msg":"b","request":{"remote_ip":"10.0.0.1","client_ip":"203.0.113.7","method":"GET","host":"h","uri":"/a?b=c","headers":{"X-Tenant":["acme"]},"tls":{"version":772}},"duration":2.125,"status":200}',
    '{"level":"info","ts":"2026-10-10T13:55:36Z","logger":"a","msg":"no request"}',
  ],
  envoy: [
    '{"start_time":"2026-10-10T13:55:36.000Z","method":"GET","path":"/a?b=c","duration":"12","x_forwarded_for":"1.2.3.4, 203.0.113.7","authority":"h:8080","scheme":"https"}',
    '{"start_time":"2026-10-10T13:55:36.123Z","method":"GET","path":"/é","duration":12,"downstream_remote_address":"203.0.113.7:39170"}',
  ],
  traefik: [
    '{"ClientAddr":"203.0.113.7:39170","ClientHost":"-","Duration":1000000,"RequestHost":"h","RequestMethod":"GET","RequestPath":"/a?b=c","RequestScheme":"https","StartUTC":null,"StartLocal":"2026-10-10T13:55:36+02:00","request_X-Tenant":"acme"}',
  ],
  spillgate: [
    '{"level":"info","time":"2026-10-10T13:55:37.500Z","at":1791640536.25,"outcome":"forwarded","client":"203.0.113.7","method":"GET","scheme":"https","host":"h","path":"/a","ms":1250,"apiKey":"acme","msg":"request"}',
    '{"time":"2026-10-10T13:55:37.500Z","outcome":"invalid","reason":"x","method":"GET","ms":1,"msg":"request"}',
    '{"time":"2026-10-10T13:55:37.500Z","msg":"the gateway is ready"}',
  ],
};

/** Some characters other, more or less. */
function damaged(line: string): fc.Arbitrary<string> {
  const change = fc.tuple(
    fc.nat({ max: line.length }),
    fc.constantFrom(
      '',
      ' ',
      '"',
      '[',
      ']',
      '-',
      ':',
      '/',
      '?',
      '0',
      '.',
      '\\',
      'é',
      '\t',
      'x',
      'e',
      '{',
      ',',
    ),
    fc.nat({ max: 3 }),
  );
  return fc.array(change, { maxLength: 2 }).map((changes) => {
    let changed = line;
    for (const [at, put, gone] of changes) changed = changed.slice(0, at) + put + changed.slice(at + gone);
    return changed;
  });
}

/** Without what is not there. */
function plain(found: LoggedRequest | 'other' | undefined): unknown {
  if (typeof found !== 'object') return found;
  const { atMs, endMs, client, method, scheme, host, target, headers, apiKey, withoutRule } = found;
  return { atMs, endMs, client, method, scheme, host, target, headers, apiKey, withoutRule };
}

function readAmongOthers(format: AccessLogFormat, line: string): LoggedRequest | 'other' | undefined {
  const bytes = Buffer.from(`before " {\n${line}\n" "after" 200 0 }`);
  const from = bytes.indexOf('\n') + 1;
  return format.readBytes?.(bytes, from, from + Buffer.byteLength(line));
}

describe.each(ACCESS_LOG_FORMATS)('$name', (format) => {
  const lines = LINES[format.name] ?? [];

  test('its first line is read out of the bytes', () => {
    expect(typeof readAmongOthers(format, lines[0] ?? '')).toBe('object');
  });

  test('what is read out of bytes is what the text says, whatever the line', () => {
    const line = fc.oneof(...lines.map(damaged));

    fc.assert(
      fc.property(fc.array(line, { minLength: 1, maxLength: 5 }), (written) => {
        for (const one of written) {
          const found = readAmongOthers(format, one) ?? format.read(one);

          expect(plain(found)).toEqual(plain(format.read(one)));
        }
      }),
      { numRuns: 3000 },
    );
  });
});

test('texts out of bytes are those texts, however many came before', () => {
  const texts = Array.from({ length: 200_000 }, (_, at) => `10.${at >>> 16}.${(at >>> 8) & 255}.${at & 255}`);
  for (const text of [...texts, ...texts.slice(-1000), '', 'a'.repeat(56), 'a'.repeat(57), 'a'.repeat(300)]) {
    const bytes = Buffer.from(`${text}x`);
    if (asciiText(bytes, 0, text.length) !== text) expect.fail(`${text} became another text`);
  }

  expect(asciiText(Buffer.from('é'), 0, 2)).toBeUndefined();
  expect(asciiText(Buffer.from('é'.repeat(40)), 0, 80)).toBeUndefined();
});
