import { once } from 'node:events';
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { LiveHub } from '../../src/admin/live/live-hub.ts';
import type { LiveSample } from '../../src/admin/live/live-sample.ts';
import { listen } from '../proxy/rig.ts';
import { SILENT } from '../runtime/started-config.ts';

test('a hub that closes while it looks for something to tell breaks nothing', async () => {
  let found: () => void = () => undefined;
  const hub = new LiveHub({
    sample: async () => new Promise((resolve) => (found = () => resolve({} as LiveSample))),
    stories: () => ({ recent: () => [] }),
    log: SILENT,
  });
  const failures: unknown[] = [];
  const responses: ServerResponse[] = [];
  const server = createServer((_, response) => {
    // Nobody else listens, and then it would end the process.
    response.on('error', (error) => failures.push(error));
    responses.push(response);
    hub.join()(response);
  });
  const port = await listen(server);
  const asked = get({ port, agent: false });
  onTestFinished(() => void asked.destroy());
  const [heard] = (await once(asked, 'response')) as [IncomingMessage];

  hub.close();
  found();
  heard.resume();
  await once(heard, 'end');

  expect(failures).toEqual([]);
  expect(hub.watching).toBe(0);
});
