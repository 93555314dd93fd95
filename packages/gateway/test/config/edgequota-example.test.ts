// The file has every setting of EdgeQuota's example, with values of its own.
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { loadConfig, type LoadedConfig } from '../../src/config/load-config.ts';
import { formatProblem } from '../../src/config/problem.ts';

const EXAMPLE = readFileSync(new URL('edgequota-example.yaml', import.meta.url), 'utf8');
const TOKEN = { SPILLGATE_ADMIN_TOKEN: 'a-token-of-the-operators-of-this-gateway' };

function load(text: string, env: Readonly<Record<string, string>> = TOKEN): LoadedConfig {
  return loadConfig({ file: { path: 'edgequota.yaml', text }, env });
}

describe("EdgeQuota's example", () => {
  test('loads, and what has no effect is named once, with what to do', () => {
    const loaded = load(EXAMPLE);

    expect(loaded.ok).toBe(true);
    expect(loaded.problems.map(({ severity, path }) => `${severity} ${path}`)).toEqual([
      'warning server.tls.http3_enabled',
      'warning server.tls.http3_advertise_port',
      'warning backend.max_idle_conns',
      'warning backend.tls_insecure_skip_verify',
      'warning backend.transport.dial_keep_alive',
      'warning backend.transport.tls_handshake_timeout',
      'warning backend.transport.expect_continue_timeout',
      'warning backend.transport.h2_read_idle_timeout',
      'warning backend.transport.h2_ping_timeout',
      'warning backend.transport.websocket_dial_timeout',
      'warning backend.transport.h3_udp_receive_buffer_size',
      'warning backend.transport.h3_udp_send_buffer_size',
      'warning rate_limit.min_ttl',
      'warning redis.write_timeout',
    ]);
    for (const problem of loaded.problems) {
      expect(formatProblem(problem)).toMatch(
        /^edgequota\.yaml:\d+:\d+: warning: [\w.]+ has no effect here\. Remove it: .+\.$/,
      );
    }
  });

  test('means what it says', () => {
    const loaded = load(EXAMPLE);

    expect(loaded.ok && loaded.config).toMatchObject({
      server: { read_timeout: 20_000, tls: { min_version: '1.3' } },
      backend: { url: 'http://shop.internal:3000', timeout: 15_000, transport: { dial_timeout: 4000 } },
      rate_limit: {
        average: 40,
        burst: 80,
        period: 2000,
        failure_code: 503,
        external: { enabled: true, grpc: { tls: { server_name: 'limits' } } },
      },
      redis: { endpoints: ['counters.internal:6379'], read_timeout: 1000 },
      tracing: { sample_rate: 0.05 },
    });
  });

  test('needs a token where its admin server is reached from elsewhere', () => {
    expect(load(EXAMPLE, {}).problems.filter(({ severity }) => severity === 'error')).toEqual([
      expect.objectContaining({ path: 'admin.address' }),
    ]);
  });
});

test.each([
  ['server: { max_websocket_conns_per_key: 5 }', /Did you mean server\.websocket\.max_per_key\?$/],
  [
    'backend: { url: "https://a", tls_insecure_skip_verify: true }',
    /Did you mean backend\.transport\.tls\.insecure_skip_verify\?$/,
  ],
  ['rate_limit: { key_strategy: { type: clientIP, trusted_proxies: [10.0.0.0/8] } }', /trusted_proxies\?$/],
])('what would loosen or change something stays an error: %s', (text, advice) => {
  const loaded = load(text);

  expect(loaded.ok).toBe(false);
  expect(loaded.problems.map(formatProblem)).toEqual([expect.stringMatching(advice)]);
});

test('a section where a setting of other gateways would be is refused', () => {
  expect(load('rate_limit: { min_ttl: { a: 1 } }').ok).toBe(false);
});
