// What docs/migrate/envoyproxy-ratelimit.md tells users to write.
import { readFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { startRedis } from '../../../../test/redis/servers.ts';
import { codeBlocks } from '../../../../examples/documents/code-blocks.ts';
import { askRls, descriptor } from './rls-client.ts';
import { codesOf, directoryWith, OK, OVER } from './rls-files.ts';
import { startTestService } from './running-service.ts';

const PAGE = new URL('../../../../docs/migrate/envoyproxy-ratelimit.md', import.meta.url);
const blocks = codeBlocks('envoyproxy-ratelimit.md', readFileSync(PAGE, 'utf8'));

function blockOf(info: string): string {
  const found = blocks.find((block) => block.info === info);
  if (found === undefined) throw new Error(`the page has no block ${info}`);
  return found.text;
}

function replaced(text: string, from: string, to: string): string {
  expect(text).toContain(from);
  return text.replace(from, to);
}

test('the files and the configuration of the page limit as it says, and the token is asked for', async () => {
  const redis = await startRedis();
  onTestFinished(() => redis.stop());
  const folder = directoryWith(blockOf('yaml ratelimit'));
  const configuration = replaced(
    replaced(blockOf('yaml service'), '/etc/ratelimit/config', JSON.stringify(folder)),
    'endpoints: ["redis:6379"]',
    // A busy machine may take longer than the defaults.
    `endpoints: ["127.0.0.1:${redis.port}"]\n  read_timeout: 10s`,
  );
  const { port } = await startTestService(`${configuration}  deadline: 10s\n`);
  const authorization = /Bearer [\w-]+/.exec(blockOf('yaml envoy'))?.[0] ?? '';
  const ask = async (text: string, times: number): Promise<readonly string[]> => {
    const answers: string[] = [];
    for (let count = 0; count < times; count += 1) {
      const descriptors = [descriptor(text)];
      answers.push(codesOf(await askRls(port, { descriptors, metadata: { authorization } })));
    }
    return answers;
  };

  expect(await ask('path=/login/now,remote_address=203.0.113.7', 3)).toEqual([OK, OK, OVER]);
  expect(await ask('path=/elsewhere,remote_address=203.0.113.7', 3)).toEqual([OK, OK, OK]);
  expect(await ask('partner=acme', 5)).toEqual([OK, OK, OK, OK, OK]);
  expect(await ask('trial=x', 3)).toEqual([OK, OK, OK]);
  expect(codesOf(await askRls(port, { descriptors: [descriptor('user=ann')] }))).toMatch(/^16: /);
});
