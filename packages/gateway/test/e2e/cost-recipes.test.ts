// docs/recipes-costs.md: every configuration is started, and does what the page says.
import { readFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { startProvider, type FakeProvider } from '../../../../examples/llm/fake-provider.ts';
import { PATIENCE_MS } from '../../../../test/patience.ts';
import { eventually, startOrigin } from '../proxy/rig.ts';
import { runGateway, type HeardResponse, type RunningGateway } from '../runtime/running-gateway.ts';

const page = readFileSync(new URL('../../../../docs/recipes-costs.md', import.meta.url), 'utf8');
const recipes = new Map(
  [...page.matchAll(/^## (.+)\n[^]*?^```yaml\n([^]*?)^```$/gm)].map(([, title = '', yaml = '']) => [
    title,
    yaml,
  ]),
);

/** The configuration of a recipe in front of a real backend. */
async function cook(title: string, backend: { readonly url: string }): Promise<RunningGateway> {
  const yaml = recipes.get(title);
  if (yaml === undefined) throw new Error(`there is no recipe "${title}"`);
  return runGateway(yaml.replaceAll('http://localhost:3000', backend.url));
}

type Sent = NonNullable<Parameters<RunningGateway['ask']>[1]>;

/** A model behind the gateway of a recipe, which was asked a question. */
async function provider(): Promise<FakeProvider> {
  const started = await startProvider();
  onTestFinished(() => started.close());
  return started;
}

function question(model: string, tokens: number, headers: Readonly<Record<string, string>> = {}): Sent {
  const messages = [{ role: 'user', content: 'hello' }];
  return {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify({ model, max_tokens: tokens, stream: true, messages }),
  };
}

/** What is left, as the next answer says it. */
function remaining({ headers }: HeardResponse, policy: string): number {
  return Number(new RegExp(`"${policy}";r=(\\d+)`).exec(String(headers['ratelimit']))?.[1]);
}

const TASTES: Readonly<Record<string, (title: string) => Promise<void>>> = {
  'Tokens of a language model': async (title) => {
    const model = await provider();
    const gateway = await cook(title, model);
    const ann = { 'X-Api-Key': 'ann' };

    await gateway.ask('/v1/chat/completions', question('small', 300, ann));
    const used = model.used.get('small') ?? 0;
    const second = await gateway.ask('/v1/messages', question('small', 300, ann));
    const tooMuch = await gateway.ask('/v1/messages', question('small', 20_000, ann));

    // What is left behind the estimate of the second: the first has cost what it has used.
    const estimate = 300 + Math.ceil((question('small', 300).body ?? '').length / 4);
    expect(remaining(second, 'tokens-per-month')).toBe(1_000_000 - used - estimate);
    expect(second.status).toBe(200);
    expect(tooMuch.status).toBe(429);
  },
  'A budget per model': async (title) => {
    const model = await provider();
    const gateway = await cook(title, model);
    const askFor = async (name: string): Promise<number> =>
      (await gateway.ask('/v1/messages', question(name, 900, { 'X-User': 'ann' }))).status;

    expect([await askFor('large'), await askFor('large')]).toEqual([200, 429]);
    expect([await askFor('small'), await askFor('small')]).toEqual([200, 200]);
    expect((await gateway.ask('/v1/messages', { ...question('', 1, { 'X-User': 'ann' }) })).status).toBe(400);
  },
  'End a stream when its budget is spent': async (title) => {
    const model = await provider();
    const gateway = await cook(title, model);

    const { status, body } = await gateway.ask('/v1/messages', question('small', 5000));

    expect(status).toBe(200);
    expect(body).toMatch(/event: error\ndata: \{"type":"error".*\}\n\n$/);
  },
  'Charge bytes of downloads': async (title) => {
    const gateway = await cook(title, await startOrigin());

    await gateway.ask();
    // "ok" are two bytes.
    await expect
      .poll(async () => remaining(await gateway.ask(), 'bytes'))
      .toBeGreaterThan(10_000_000 - 2 * 1024);
  },
  'Let the backend say what a request has cost': async (title) => {
    const backend = await startOrigin((_, response) => response.writeHead(200, { 'X-Cost': '400' }).end());
    const gateway = await cook(title, backend);

    const answers: number[] = [];
    for (let at = 0; at < 4; at += 1) {
      answers.push((await gateway.ask()).status);
      await eventually(
        () => gateway.log.filter((line) => line.includes('"cost":400')).length >= Math.min(at + 1, 3),
      );
    }
    expect(answers).toEqual([200, 200, 200, 429]);
  },
};

test('each recipe is tried', () => {
  expect([...recipes.keys()]).toEqual(Object.keys(TASTES));
});

test.each(Object.entries(TASTES))('%s', { timeout: 2 * PATIENCE_MS }, async (title, taste) => {
  expect.hasAssertions();
  await taste(title);
});
