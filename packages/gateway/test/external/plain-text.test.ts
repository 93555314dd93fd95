import { expect, test } from 'vitest';
import { testSource } from './sources.ts';

test.each([
  [{ http: { url: 'http://limits:8080/' } }, 1],
  [{ http: { url: 'https://limits:8080/' } }, 0],
  [{ http: { url: 'http://127.0.0.1:8080/' } }, 0],
  [{ http: { url: 'http://[::1]:8080/' } }, 0],
  [{ http: { url: 'http://localhost.evil:8080/' } }, 1],
  [{ grpc: { address: 'limits:50052' } }, 1],
  [{ grpc: { address: 'limits:50052', tls: { enabled: true } } }, 0],
  [{ grpc: { address: 'localhost:50052' } }, 0],
])(
  'a service at %j is warned of %i times: who answers in its place could charge anybody',
  async (external, warnings) => {
    const { source, told } = testSource({ external });

    expect(told.log.filter((line) => line.includes('without TLS'))).toHaveLength(warnings);
    await source.close();
  },
);

test('the warning does not show what the query of its URL says', async () => {
  const { source, told } = testSource({ external: { http: { url: 'http://limits:8080/?token=hunter2' } } });

  expect(told.log.filter((line) => line.includes('without TLS'))).toHaveLength(1);
  expect(told.log.join('\n')).not.toContain('hunter2');
  await source.close();
});
