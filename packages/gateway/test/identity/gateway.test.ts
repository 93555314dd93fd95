// Who is asking, on a running gateway with a backend that says what reached it.
import { createHash } from 'node:crypto';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { PATIENCE_MS } from '../../../../test/patience.ts';
import { listen, startOrigin, type Origin } from '../proxy/rig.ts';
import { runGateway, type RunningGateway } from '../runtime/running-gateway.ts';
import { AUDIENCE, ISSUER, jwksOf, signer, tokenOf, type Signer } from './issuer.ts';

const hashOf = (key: string): string => `sha256:${createHash('sha256').update(key).digest('hex')}`;
const inAnHour = (): number => Math.floor(Date.now() / 1000) + 3600;

const POLICIES = `
  policies:
    anonymous: { average: 1, burst: 1, period: 1h }
    free: { average: 2, burst: 2, period: 1h }
    pro: { average: 4, burst: 4, period: 1h }
    address: { average: 100, burst: 100, period: 1h }
`;

function apiKeyConfig(origin: Origin, more = '', file?: string): string {
  return `
backend: { url: "${origin.url}" }
identity:
  api_keys:
    ${file === undefined ? '' : `file: ${file}`}
    keys:
      - { name: acme, hash: "${hashOf('key-of-acme')}", plan: pro }
      - { name: beta, hash: "${hashOf('key-of-beta')}", plan: free }
      - { name: gone, hash: "${hashOf('key-of-gone')}", disabled: true }
      - { name: late, hash: "${hashOf('key-of-late')}", expires: "2020-01-01T00:00:00Z" }
      - { name: old, hash: "${hashOf('new-key')}", previous: { hash: "${hashOf('old-key')}", until: "2999-01-01T00:00:00Z" } }
  plans:
    free: { policies: [free] }
    pro: { policies: [pro] }
${more}
rate_limit:
${POLICIES}
  rules:
    - name: everything
      match: { path: /** }
      policies: [anonymous, { policy: address, key: clientIP }]
`;
}

/** A file that is replaced whole, by renaming. */
function changingFile(name: string): { readonly file: string; readonly write: (text: string) => void } {
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-keys-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, name);
  const write = (text: string): void => {
    writeFileSync(`${file}.next`, text);
    renameSync(`${file}.next`, file);
  };
  return { file, write };
}

const withKey = (key: string): { headers: Record<string, string> } => ({ headers: { 'X-API-Key': key } });

async function statuses(gateway: RunningGateway, times: number, key?: string): Promise<readonly number[]> {
  const found: number[] = [];
  for (let at = 0; at < times; at += 1) {
    found.push((await gateway.ask('/', key === undefined ? {} : withKey(key))).status);
  }
  return found;
}

describe('API keys', () => {
  test('a plan gives a key its policies, and who shows none meets those of the rule', async () => {
    const gateway = await runGateway(apiKeyConfig(await startOrigin()));

    expect(await statuses(gateway, 5, 'key-of-acme')).toEqual([200, 200, 200, 200, 429]);
    expect(await statuses(gateway, 3, 'key-of-beta')).toEqual([200, 200, 429]);
    expect(await statuses(gateway, 2)).toEqual([200, 429]);
  });

  test('whatever is wrong with a key, the answer is the same 401, and nothing is counted or forwarded', async () => {
    const origin = await startOrigin();
    const gateway = await runGateway(apiKeyConfig(origin));
    const wrong = ['nobody', 'key-of-gone', 'key-of-late', 'KEY-OF-ACME', 'key-of-acme2', 'x'.repeat(600)];

    const answers = await Promise.all(wrong.map(async (key) => gateway.ask('/', withKey(key))));

    for (const { status, headers, body } of answers) {
      expect(status).toBe(401);
      expect(headers['www-authenticate']).toBe('ApiKey realm="spillgate"');
      expect(JSON.parse(body)).toMatchObject({ status: 401, detail: 'The API key is not valid.' });
      expect(headers['ratelimit']).toBeUndefined();
    }
    expect(origin.requests).toHaveLength(0);
    expect(await statuses(gateway, 1)).toEqual([200]);
  });

  test('operators are told what was wrong with a key, in the logs and in its story; the client is not', async () => {
    const gateway = await runGateway(apiKeyConfig(await startOrigin()));
    const wrong = new Map<string, readonly [sent: string | readonly string[], told: RegExp]>([
      ['apiKey unknown', ['nobody', /its API key is none of this gateway\. No rule was asked\./]],
      ['apiKey disabled', ['key-of-gone', /its API key was revoked\./]],
      ['apiKey expired', ['key-of-late', /its API key has expired\./]],
      ['apiKey unclear', [['key-of-acme', 'key-of-acme'], /it carries an API key twice/]],
    ]);

    const answers = new Set<string>();
    for (const [rejected, [key, told]] of wrong) {
      const { headers, body } = await gateway.ask('/', { headers: { 'X-API-Key': key } });
      const id = String(headers['x-request-id']);
      answers.add(body.replace(id, ''));
      const story: unknown = JSON.parse((await gateway.askAdmin(`/v1/explain/${id}`)).body);
      expect(story).toMatchObject({ reason: 'unidentified', rejected, rulesAsked: false, rules: [] });
      expect(story).toHaveProperty('summary', expect.stringMatching(told));
      const lines = (): readonly string[] =>
        gateway.log.flatMap((text) => text.split('\n')).filter((line) => line.includes(`"id":"${id}"`));
      await vi.waitFor(() => expect(lines()).toHaveLength(2), { timeout: PATIENCE_MS });
      for (const line of lines())
        expect(JSON.parse(line)).toMatchObject({ reason: 'unidentified', rejected });
    }

    expect(answers.size).toBe(1);
  });

  test('a rotated key and the one before it are counted as one', async () => {
    const gateway = await runGateway(apiKeyConfig(await startOrigin()));

    expect(await statuses(gateway, 1, 'new-key')).toEqual([200]);
    expect(await statuses(gateway, 1, 'old-key')).toEqual([429]);
  });

  test('backends hear who is asking from the gateway, and never from a client', async () => {
    const origin = await startOrigin();
    const gateway = await runGateway(apiKeyConfig(origin));
    const forged = {
      'x-spillgate-key-name': 'root',
      'X-Spillgate-Plan': 'unlimited',
      'X-SPILLGATE-Subject': 'root',
      'X-Spillgate-Certificate': 'root',
    };

    await gateway.ask('/', {
      headers: { ...forged, 'X-API-Key': 'key-of-acme', Connection: 'X-Spillgate-Key-Name' },
    });
    await gateway.ask('/', { headers: forged });

    const [known, unknown] = origin.requests;
    expect(known?.header('X-Spillgate-Key-Name')).toBe('acme');
    expect(known?.header('X-Spillgate-Plan')).toBe('pro');
    expect(known?.header('X-Spillgate-Subject')).toBeUndefined();
    for (const name of Object.keys(forged)) expect(unknown?.header(name)).toBeUndefined();
  });

  test('the names of these headers are a setting', async () => {
    const origin = await startOrigin();
    const gateway = await runGateway(apiKeyConfig(origin, '  headers: { key_name: X-Consumer }'));

    await gateway.ask('/', { headers: { 'X-API-Key': 'key-of-acme', 'x-consumer': 'root' } });

    expect(origin.requests[0]?.header('X-Consumer')).toBe('acme');
  });

  test('a key that is sent twice, or in two places, is no key', async () => {
    const origin = await startOrigin();
    const gateway = await runGateway(
      apiKeyConfig(origin).replace('api_keys:', 'api_keys:\n    query_parameter: api_key'),
    );

    expect((await gateway.ask('/?api_key=key-of-acme')).status).toBe(200);
    expect((await gateway.ask('/?api_k%65y=key%2Dof-acme')).status).toBe(200);
    expect((await gateway.ask('/?api_key=key-of-acme&api_key=key-of-acme')).status).toBe(401);
    expect((await gateway.ask('/?api_key=key-of-acme', withKey('key-of-acme'))).status).toBe(401);
    expect(
      (await gateway.ask('/', { headers: { 'X-API-Key': ['key-of-acme', 'key-of-beta'] } })).status,
    ).toBe(401);
  });

  test('a key in Authorization stands behind Bearer; other schemes are for somebody else', async () => {
    const origin = await startOrigin();
    const gateway = await runGateway(
      apiKeyConfig(origin).replace('api_keys:', 'api_keys:\n    header_name: Authorization'),
    );
    const asked = async (authorization: string): Promise<number> =>
      (await gateway.ask('/', { headers: { Authorization: authorization } })).status;

    expect(await asked('Bearer key-of-acme')).toBe(200);
    expect(await asked('bearer  key-of-acme')).toBe(200);
    expect(await asked('Bearer key-of-acme x')).toBe(401);
    expect(await asked('Bearer')).toBe(401);
    expect(await asked('Basic a2V5OnNlY3JldA==')).toBe(200);
    expect(origin.requests.at(-1)?.header('X-Spillgate-Key-Name')).toBeUndefined();
  });

  test('a rule may count by the name of the key, and ask for one', async () => {
    const origin = await startOrigin();
    const gateway = await runGateway(`
backend: { url: "${origin.url}" }
identity: { api_keys: { keys: [{ name: acme, hash: "${hashOf('key-of-acme')}" }] } }
rate_limit: { average: 1, burst: 1, period: 1h, key_strategy: { type: apiKey } }
`);

    const without = await gateway.ask('/');
    expect(without.status).toBe(401);
    expect(without.headers['www-authenticate']).toBe('ApiKey realm="spillgate"');
    expect(await statuses(gateway, 2, 'key-of-acme')).toEqual([200, 429]);
  });

  test('a file of keys is read again when it changes, and stays in use when it breaks', async () => {
    const { file, write } = changingFile('keys.yaml');
    const entry = (disabled: boolean): string =>
      `keys:\n  - { name: filed, hash: "${hashOf('key-in-file')}", plan: pro, disabled: ${disabled} }\n`;
    write(entry(false));
    const gateway = await runGateway(apiKeyConfig(await startOrigin(), '', file));
    const isAccepted = async (): Promise<boolean> =>
      (await gateway.ask('/', withKey('key-in-file'))).status !== 401;
    const becomes = async (accepted: boolean): Promise<void> =>
      vi.waitFor(async () => expect(await isAccepted()).toBe(accepted), { timeout: PATIENCE_MS });

    expect(await statuses(gateway, 1, 'key-in-file')).toEqual([200]);
    write(entry(true));
    await becomes(false);
    write('keys: [');
    await vi.waitFor(() => expect(gateway.log.join('')).toContain('cannot be read again'), {
      timeout: PATIENCE_MS,
    });
    expect(await isAccepted()).toBe(false);
    write(entry(false));
    await becomes(true);
  });

  test('a plan that there is not gives a key nothing, backends do not hear of it, and the log has an error', async () => {
    const { file, write } = changingFile('keys.yaml');
    const entry = (plan: string): string =>
      `keys:\n  - { name: filed, hash: "${hashOf('key-in-file')}", plan: ${plan} }\n`;
    write(entry('pro'));
    const origin = await startOrigin();
    const gateway = await runGateway(apiKeyConfig(origin, '', file));
    const told = async (): Promise<string | undefined> => {
      await gateway.ask('/', withKey('key-in-file'));
      return origin.requests.at(-1)?.header('X-Spillgate-Plan');
    };
    expect(await told()).toBe('pro');

    write(entry('gold'));
    await vi.waitFor(() => expect(gateway.log.join('')).toContain('has the plan gold'), {
      timeout: PATIENCE_MS,
    });

    expect(await told()).toBeUndefined();
    expect(origin.requests.at(-1)?.header('X-Spillgate-Key-Name')).toBe('filed');
    const line = gateway.log.find((text) => text.includes('has the plan gold')) ?? '';
    expect(line).toContain('"level":"error"');
  });
});

const ec = signer('ec-1', 'ES256');

/** A server with keys that may change, and how often it was asked. */
async function startIssuer(
  keys: string,
): Promise<{ url: string; keys: string; asked: number; status: number }> {
  const issuer = { url: '', keys, asked: 0, status: 200 };
  const server = createServer((_, response) => {
    issuer.asked += 1;
    response.writeHead(issuer.status, { Location: '/elsewhere' }).end(issuer.keys);
  });
  return Object.assign(issuer, { url: `http://127.0.0.1:${await listen(server)}/keys` });
}

function jwtConfig(origin: Origin, url: string, more = ''): string {
  return `
backend: { url: "${origin.url}" }
identity:
  jwt:
    jwks: { url: "${url}", allow_private_network: true, cooldown: 1s, wait: 5s }
    issuer: ["${ISSUER}"]
    audience: ["${AUDIENCE}"]
    algorithms: [ES256]
    ${more}
rate_limit: { average: 2, burst: 2, period: 1h, key_strategy: { type: jwtClaim, claim: sub, verified: true } }
`;
}

const bearer = (by: Signer, claims: object = {}): { headers: Record<string, string> } => ({
  headers: { Authorization: `Bearer ${tokenOf(by, { exp: inAnHour(), ...claims })}` },
});

describe('verified tokens', () => {
  test('are counted by their claim, whatever else differs, and told to the backend', async () => {
    const origin = await startOrigin();
    const issuer = await startIssuer(jwksOf(ec));
    const gateway = await runGateway(jwtConfig(origin, issuer.url));

    expect((await gateway.ask('/', bearer(ec))).status).toBe(200);
    expect((await gateway.ask('/', bearer(ec, { jti: 2 }))).status).toBe(200);
    expect((await gateway.ask('/', bearer(ec, { jti: 3 }))).status).toBe(429);
    expect((await gateway.ask('/', bearer(ec, { sub: 'bob\r\n🎈' }))).status).toBe(200);
    expect(origin.requests[0]?.header('X-Spillgate-Subject')).toBe('ann');
    expect(origin.requests[2]?.header('X-Spillgate-Subject')).toBe('bob%0D%0A%F0%9F%8E%88');
    expect(issuer.asked).toBe(1);
  });

  test('those that are not valid get a 401 that says how to do better', async () => {
    const origin = await startOrigin();
    const gateway = await runGateway(jwtConfig(origin, (await startIssuer(jwksOf(ec))).url));

    const expired = await gateway.ask('/', bearer(ec, { exp: 1 }));
    const forged = await gateway.ask('/', bearer(signer('ec-1', 'ES256')));
    const missing = await gateway.ask('/');

    expect([expired.status, forged.status, missing.status]).toEqual([401, 401, 401]);
    expect(expired.headers['www-authenticate']).toBe(
      'Bearer realm="spillgate", error="invalid_token", error_description="The token has expired"',
    );
    expect(forged.headers['www-authenticate']).toBe(
      'Bearer realm="spillgate", error="invalid_token", error_description="The token is not valid"',
    );
    expect(missing.headers['www-authenticate']).toBe('Bearer realm="spillgate"');
    expect(origin.requests).toHaveLength(0);
  });

  test('or are counted by the address, where that is the setting', async () => {
    const origin = await startOrigin();
    const gateway = await runGateway(
      jwtConfig(origin, (await startIssuer(jwksOf(ec))).url, 'on_invalid: clientIP'),
    );
    const forged = signer('ec-1', 'ES256');

    const found = [];
    for (const sub of ['ann', 'bob', 'cid'])
      found.push((await gateway.ask('/', bearer(forged, { sub }))).status);

    expect(found).toEqual([200, 200, 429]);
    expect((await gateway.ask('/', bearer(ec))).status).toBe(200);
  });

  test('a key that the issuer adds is found, and one that it takes away counts no longer', async () => {
    const next = signer('ec-2', 'ES256');
    const issuer = await startIssuer(jwksOf(ec));
    const gateway = await runGateway(
      jwtConfig(await startOrigin(), issuer.url).replace('cooldown: 1s', 'cooldown: 1s, refresh: 1s'),
    );
    const becomes = async (by: Signer, sub: string, status: number): Promise<void> =>
      vi.waitFor(async () => expect((await gateway.ask('/', bearer(by, { sub }))).status).toBe(status), {
        timeout: PATIENCE_MS,
      });
    await becomes(ec, 'ann', 200);

    issuer.keys = jwksOf(ec, next);
    await becomes(next, 'bob', 200);
    issuer.keys = jwksOf(next);

    await becomes(ec, 'cid', 401);
  });

  test('the same with keys in a file', async () => {
    const next = signer('ec-2', 'ES256');
    const { file, write } = changingFile('keys.json');
    write(jwksOf(ec));
    const config = jwtConfig(await startOrigin(), '').replace(/jwks: .*/, `jwks: { file: ${file} }`);
    const gateway = await runGateway(config);
    const statusOf = async (by: Signer, sub: string): Promise<number> =>
      (await gateway.ask('/', bearer(by, { sub }))).status;

    expect(await statusOf(ec, 'ann')).toBe(200);
    expect(await statusOf(next, 'bob')).toBe(401);
    write(jwksOf(next));

    await expect.poll(async () => statusOf(next, 'bob')).toBe(200);
    expect(await statusOf(ec, 'cid')).toBe(401);
  });

  test('keys are not fetched from where a redirect leads, and nobody is let in without keys', async () => {
    const origin = await startOrigin();
    const issuer = await startIssuer(jwksOf(ec));
    issuer.status = 302;
    const gateway = await runGateway(jwtConfig(origin, issuer.url));

    const answer = await gateway.ask('/', bearer(ec));

    expect(answer.status).toBe(503);
    expect(answer.headers['retry-after']).toBe('1');
    expect(origin.requests).toHaveLength(0);
  });

  test('keys are not fetched from private addresses unless that is allowed', async () => {
    const issuer = await startIssuer(jwksOf(ec));
    const url = issuer.url.replace('127.0.0.1', 'localhost.');
    const gateway = await runGateway(
      jwtConfig(await startOrigin(), url).replace('allow_private_network: true, ', ''),
    );

    expect((await gateway.ask('/', bearer(ec))).status).toBe(503);
    expect(issuer.asked).toBe(0);
  });
});
