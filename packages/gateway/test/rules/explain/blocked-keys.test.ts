// What is said about a key that an operator has blocked: no numbers and no `forget` would help it.
import { expect, test } from 'vitest';
import { explanation, type Explanation } from '../../../src/rules/explain/explanation.ts';
import { startOrigin } from '../../proxy/rig.ts';
import { spillgate } from '../../cli/terminal.ts';
import { runGateway, type RunningGateway } from '../../runtime/running-gateway.ts';

const JSON_BODY = { 'content-type': 'application/json' };

async function startBlocking(block: object): Promise<RunningGateway> {
  const origin = await startOrigin();
  const running = await runGateway(`
backend: { url: "${origin.url}" }
rate_limit:
  policies:
    login: { average: 1, burst: 7, period: 1d }
    other: { average: 1, burst: 9, period: 1d }
  rules:
    - { name: everything, policies: [login, other] }
`);
  const { status } = await running.askAdmin('/v1/keys/login/127.0.0.1/block', {
    method: 'PUT',
    headers: JSON_BODY,
    body: JSON.stringify(block),
  });
  expect(status).toBe(200);
  return running;
}

async function explainOf(running: RunningGateway, id?: string): Promise<Explanation> {
  const body = JSON.stringify({ method: 'GET', path: '/', client: '127.0.0.1' });
  const { body: text } =
    id === undefined
      ? await running.askAdmin('/v1/explain', { method: 'POST', headers: JSON_BODY, body })
      : await running.askAdmin(`/v1/explain/${id}`);
  return explanation.parse(JSON.parse(text));
}

test.each([[{}], [{ expires_in: '1h' }]])(
  'explain says that a key is blocked, and how to end that: %j',
  async (block) => {
    const running = await startBlocking(block);
    const { status, headers } = await running.ask('/');
    expect(status).toBe(429);

    for (const id of [undefined, String(headers['x-request-id'])]) {
      const { summary, toBeAdmitted } = await explainOf(running, id);

      expect(summary).toContain('somebody has blocked 127.0.0.1 under the policy login');
      expect(toBeAdmitted.at(-1)).toMatch(/nd the block of 127\.0\.0\.1 under the policy login\.$/);
      expect([summary, ...toBeAdmitted].join('\n')).not.toMatch(/left|higher|forget|fit|Raise/);
    }
  },
);

test('a block without an end is not waited for', async () => {
  const running = await startBlocking({});

  const { toBeAdmitted } = await explainOf(running);

  expect(toBeAdmitted).toEqual(['End the block of 127.0.0.1 under the policy login.']);
});

test('the command says nothing about what a policy has left that was not asked', async () => {
  const running = await startBlocking({ expires_in: '1h' });

  const { stdout } = await spillgate([
    'explain',
    '--path',
    '/',
    '--client',
    '127.0.0.1',
    '--admin',
    `http://127.0.0.1:${running.adminPort}`,
  ]);

  expect(stdout).toMatch(/^ {2}x login denies 127\.0\.0\.1: blocked until 2\d{3}-\S+Z$/m);
  expect(stdout).toMatch(/^ {2}\* other was not asked about 127\.0\.0\.1$/m);
});
