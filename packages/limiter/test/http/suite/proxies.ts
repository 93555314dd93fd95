import { expect, test } from 'vitest';
import { createLimiter, tokenBucket, type LimiterError } from '../../../src/index.ts';
import type { RateLimitOptions } from '../../../src/http/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { startServer, type Framework, type RunningServer } from '../running-server.ts';

const once = tokenBucket({ name: 'once', average: 1, burst: 1, period: '1h' });

export function proxyTests<Request>(framework: Framework<Request>): void {
  const start = (options: Partial<RateLimitOptions<Request>>): Promise<RunningServer> => {
    const limiter = createLimiter({ clock: virtualClock() });
    return startServer<Request>(framework, { limiter, policies: once, ...options });
  };
  const behindProxy = async (): Promise<(...lines: string[]) => Promise<number>> => {
    const { get } = await start({ clientAddress: { trustedProxies: 'loopback' } });
    return async (...lines) => (await get({ headers: { 'x-FORWARDED-for': lines } })).status;
  };

  test('behind a trusted proxy the client is who the proxy saw, whatever the client claims', async () => {
    const from = await behindProxy();

    expect(await from('192.0.2.1')).toBe(200);
    expect(await from('6.6.6.6, 192.0.2.1')).toBe(429);
    expect(await from('7.7.7.7', '192.0.2.1, 127.0.0.1')).toBe(429);
    expect(await from('192.0.2.1, 192.0.2.2')).toBe(200);
  });

  test('IPv6 clients are counted by their network, and IPv4 in IPv6 as IPv4', async () => {
    const from = await behindProxy();

    expect(await from('2001:db8::1')).toBe(200);
    expect(await from('[2001:db8::ffff:2]:4711')).toBe(429);
    expect(await from('2001:db8:0:1::1')).toBe(200);
    expect(await from('192.0.2.9')).toBe(200);
    expect(await from('::ffff:192.0.2.9')).toBe(429);
  });

  test('a header of a proxy that nobody named is ignored, and said once', async () => {
    const warnings: string[] = [];
    const { statuses } = await start({ onProxyWarning: ({ code }: LimiterError) => warnings.push(code) });

    expect(await statuses(3, { headers: { 'X-Forwarded-For': '192.0.2.1' } })).toEqual([200, 429, 429]);
    expect(warnings).toEqual(['PROXY_NOT_TRUSTED']);
  });
}
