import { expect, test } from 'vitest';
import { loadConfig, type LoadedConfig } from '../../src/config/load-config.ts';
import { SETTINGS } from '../../src/config/settings.ts';
import { startGateway } from '../../src/runtime/start-gateway.ts';
import { createLogger } from '../../src/telemetry/logger.ts';

const TEXT = `
server: { address: "127.0.0.1:0" }
backend: { url: "http://127.0.0.1:1" }
admin: { token: planted-a-admin-token, read_only_token: planted-l-token-of-readers }
redis: { mode: sentinel, master_name: a, endpoints: ["127.0.0.1:1"], password: planted-b, sentinel_password: planted-c }
cache_redis: { mode: sentinel, master_name: a, endpoints: ["127.0.0.1:1"], password: planted-d, sentinel_password: planted-e }
service: { address: "127.0.0.1:0", token: planted-g-service-token }
rate_limit:
  external: { enabled: true, http: { url: "http://127.0.0.1:1/" }, auth: { value: planted-f } }
authorization: { enabled: true, http: { url: "http://127.0.0.1:1/" }, auth: { value: planted-j } }
usage_events: { enabled: true, http: { url: "http://127.0.0.1:1/", auth: { value: planted-k } } }
`;
/** The same servers by their addresses, which have passwords in them. */
const WITH_URLS = `
server: { address: "127.0.0.1:0" }
backend: { url: "http://127.0.0.1:1" }
redis: { url: "redis://:planted-h@127.0.0.1:1" }
cache_redis: { url: "redis://:planted-i@127.0.0.1:1" }
rate_limit:
  external: { enabled: true, http: { url: "http://127.0.0.1:1/" } }
`;

test('a gateway keeps every secret of its configuration out of its log', async () => {
  const hidden = [...(await hiddenBy(TEXT)), ...(await hiddenBy(WITH_URLS))];

  expect(hidden.map((secret) => secret.slice(0, 9)).toSorted()).toEqual(
    SETTINGS.filter(({ secret }) => secret).map((_, at) => `planted-${String.fromCharCode(97 + at)}`),
  );
});

async function hiddenBy(text: string): Promise<readonly string[]> {
  const readConfig = (): LoadedConfig => loadConfig({ file: { path: 'a.yaml', text } });
  const loaded = readConfig();
  if (!loaded.ok) throw new Error(loaded.problems.map(({ message }) => message).join('\n'));
  const hidden: string[] = [];
  const logger = {
    ...createLogger({ config: loaded.config.logging, output: () => undefined }),
    hide: (secrets: readonly string[]) => void hidden.push(...secrets),
  };
  const gateway = await startGateway({ readConfig, logger, version: '1.2.3', worker: true });
  await gateway.drain();
  return hidden;
}
