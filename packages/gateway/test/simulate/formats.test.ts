// Lines of each kind of log, as the programs write them.
import { describe, expect, test } from 'vitest';
import { ACCESS_LOG_FORMATS, recognizeFormat } from '../../src/simulate/formats/index.ts';
import { patternFormat, UnusablePattern } from '../../src/simulate/formats/pattern.ts';

const AT_MS = Date.UTC(2026, 9, 10, 13, 55, 36);

const LINES = {
  spillgate:
    '{"level":"info","time":"2026-10-10T13:55:37.500Z","id":"a","at":1791640536.25,"outcome":"forwarded","client":"203.0.113.7","method":"GET","scheme":"https","host":"api.example.com","path":"/a","protocol":"HTTP/1.1","status":200,"received":0,"sent":2,"ms":1250,"msg":"request"}',
  combined:
    '203.0.113.7 - frank [10/Oct/2026:06:55:36 -0700] "GET /a?b=c HTTP/1.1" 200 2326 "http://www.example.com/" "Mozilla/5.0 (X11) \\"quoted\\""',
  caddy:
    '{"level":"info","ts":1791640538,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"10.0.0.1","client_ip":"203.0.113.7","proto":"HTTP/2.0","method":"GET","host":"api.example.com","uri":"/a?b=c","headers":{"User-Agent":["curl/8"],"X-Tenant":["acme"]},"tls":{"version":772}},"duration":2,"status":200}',
  envoy:
    '{"start_time":"2026-10-10T13:55:36.000Z","method":"GET","path":"/a?b=c","protocol":"HTTP/1.1","response_code":200,"duration":12,"x_forwarded_for":"203.0.113.7","user_agent":"curl/8","authority":"api.example.com:8080","downstream_remote_address":"203.0.113.7:39170"}',
  traefik:
    '{"ClientAddr":"203.0.113.7:39170","ClientHost":"203.0.113.7","DownstreamStatus":200,"Duration":1000000,"RequestHost":"api.example.com","RequestMethod":"GET","RequestPath":"/a?b=c","RequestScheme":"https","StartUTC":"2026-10-10T13:55:36Z","request_X-Tenant":"acme","time":"2026-10-10T13:55:37Z"}',
  alb: 'h2 2026-10-10T13:55:37.500000Z app/lb/1 203.0.113.7:2817 10.0.0.1:80 0.500 1.000 -1 200 200 34 366 "GET https://api.example.com:443/a?b=c HTTP/2.0" "curl/8" ECDHE TLSv1.2 arn "Root=1" "-" "-" 0 2026-10-10T13:55:36Z "forward" "-" "-"',
};

describe.each(Object.entries(LINES))('%s', (name, line) => {
  const format = ACCESS_LOG_FORMATS.find((known) => known.name === name);

  test('is recognized', () => {
    expect(recognizeFormat([line, line])?.name).toBe(name);
  });

  test('says who asked for what, and when it came', () => {
    const found = format?.read(line);

    expect(found).toMatchObject({ client: '203.0.113.7', method: 'GET' });
    expect(typeof found === 'object' && found.target.split('?')[0]).toBe('/a');
    expect(typeof found === 'object' && Math.floor(found.atMs / 1000) * 1000).toBe(AT_MS);
  });

  test('is not read if half of it is missing', () => {
    expect(typeof format?.read(line.slice(0, line.length / 2))).not.toBe('object');
  });
});

test.each([
  ['caddy', ['user-agent', 'curl/8', 'x-tenant', 'acme']],
  ['traefik', ['x-tenant', 'acme']],
  ['combined', ['referer', 'http://www.example.com/', 'user-agent', 'Mozilla/5.0 (X11) \\"quoted\\"']],
] as const)('headers that %s logs can be keys', (name, headers) => {
  const format = ACCESS_LOG_FORMATS.find((known) => known.name === name);

  expect(format?.read(LINES[name])).toMatchObject({ headers });
});

test('the host and the scheme are read where the log has them', () => {
  const read = (name: keyof typeof LINES) =>
    ACCESS_LOG_FORMATS.find((known) => known.name === name)?.read(LINES[name]);

  expect(read('alb')).toMatchObject({ scheme: 'https', host: 'api.example.com:443' });
  expect(read('spillgate')).toMatchObject({ scheme: 'https', host: 'api.example.com', atMs: AT_MS + 250 });
  expect(read('traefik')).toMatchObject({ scheme: 'https', host: 'api.example.com' });
});

test('other lines of the own log are not requests, and no mistakes', () => {
  const [own] = ACCESS_LOG_FORMATS;

  expect(own?.read('{"level":"info","time":"2026-10-10T13:55:37.500Z","msg":"the gateway is ready"}')).toBe(
    'other',
  );
  expect(own?.read('{"level":"info"}')).toBeUndefined();
  expect(own?.read('half a li')).toBeUndefined();
});

test('what nobody writes is in no format', () => {
  expect(recognizeFormat(['hello', '{}', '{"a":1}', '[]', 'null', ''])).toBeUndefined();
});

describe('a pattern', () => {
  test('reads what log_format of nginx writes', () => {
    const format = patternFormat(
      '$remote_addr - $remote_user [$time_local] "$request" $status "$http_user_agent" $request_time "$http_x_tenant"',
    );

    const found = format.read(
      '203.0.113.7 - - [10/Oct/2026:13:55:37 +0000] "POST /login HTTP/1.1" 200 "a \\"b\\"" 1.000 "acme"',
    );

    expect(found).toMatchObject({
      atMs: AT_MS,
      client: '203.0.113.7',
      method: 'POST',
      target: '/login',
      headers: ['user-agent', 'a \\"b\\"', 'x-tenant', 'acme'],
    });
    expect(format.read('something else')).toBeUndefined();
  });

  test.each([
    ['no variables', /has no variables/],
    ['$remote_addr "$request"', /needs one of \$time_local, \$time_iso8601, \$msec/],
    ['$msec $remote_addr', /needs \$request/],
    ['$msec$request', /nothing between \$msec and the next variable/],
    ['$msec $msec "$request"', /has \$msec twice/],
  ])('%s is refused', (pattern, message) => {
    expect(() => patternFormat(pattern)).toThrow(UnusablePattern);
    expect(() => patternFormat(pattern)).toThrow(message);
  });
});
