import { createSocket } from 'node:dgram';
import { Resolver } from 'node:dns';
import { createServer } from 'node:http';
import { networkInterfaces } from 'node:os';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createConnector, type ResolveAll } from '../../../src/http-client/index.ts';
import { readUpstreamTls } from '../../../src/proxy/upstreams/configured-upstreams.ts';
import {
  TenantBackends,
  type TenantBackendsOptions,
  UrlPolicy,
} from '../../../src/proxy/upstreams/tenant-backends.ts';
import { textOf } from '../../http-client/asking.ts';
import { backendOf, keptLog } from '../gateway-settings.ts';
import { listen, until, type LocalServer } from '../local-server.ts';
import { FORBIDDEN_IPV4, FORBIDDEN_IPV6, spellingsOf } from './address-spellings.ts';

type Policy = NonNullable<Parameters<typeof backendOf>[0]['url_policy']>;

function backends(policy: Policy = {}, others: Partial<TenantBackendsOptions> = {}): TenantBackends {
  const backend = backendOf({ url_policy: policy, idle_conn_timeout: '10s' });
  const tenants = new TenantBackends({
    urlPolicy: backend.url_policy,
    pool: { ...backend, backend_protocol: 'auto' },
    dialTimeoutMs: 2000,
    tls: readUpstreamTls(backend.transport.tls),
    log: keptLog(),
    ...others,
  });
  onTestFinished(async () => tenants.close({ force: true }));
  return tenants;
}

/** What nobody may reach. */
async function canary(): Promise<LocalServer> {
  return listen(createServer((_request, response) => response.end('canary')));
}

/** What comes of asking such a backend: the body, or the code of the error or refusal. */
async function ask(tenants: TenantBackends, url: string, pool: 'pool' | 'http2' = 'pool'): Promise<string> {
  const backend = tenants.for(url);
  if (backend.refused !== undefined) return backend.refused;
  try {
    return await textOf(backend.upstream[pool]);
  } catch (failure) {
    return failure instanceof Error && 'code' in failure ? String(failure.code) : String(failure);
  }
}

const answering =
  (...addresses: readonly string[]): ResolveAll =>
  (_host, callback) => {
    callback(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    );
  };

describe('forbidden addresses', () => {
  test('are refused in every spelling, as a URL and as the host of a connection, and none is dialled', async () => {
    const server = await canary();
    const tenants = backends();
    const policy = new UrlPolicy(backendOf({}).url_policy);
    const hosts = [
      ...FORBIDDEN_IPV4.flatMap(spellingsOf),
      ...FORBIDDEN_IPV6.map((address) => `[${address}]`),
    ];

    const followed = hosts.filter(
      (host) => tenants.for(`http://${host}:${server.port}/`).refused === undefined,
    );
    const reached: string[] = [];
    for (const host of ['localhost', ...hosts]) {
      const hostname = host.replace(/^\[|\]$/g, '');
      const connect = createConnector(
        { secure: false, hostname, host, port: server.port },
        {
          tls: {},
          timeoutMs: 2000,
          http2: false,
          refusesAddress: (address) => policy.refusesAddress({ host: hostname, port: server.port }, address),
        },
      );
      const socket = await connect().catch(() => undefined);
      if (socket !== undefined) reached.push(`${host} ${socket.remoteAddress}`);
      socket?.destroy();
    }

    expect(hosts.length).toBeGreaterThan(700);
    expect(followed).toEqual([]);
    expect(reached).toEqual([]);
    expect(server.accepted()).toBe(0);
  });

  test.each(['127.0.0.1', '::ffff:127.0.0.1', '::1', '64:ff9b::7f00:1', '169.254.169.254', 'fe80::1%lo', ''])(
    'a name that leads to %s is refused when it is dialled',
    async (address) => {
      const server = await canary();
      const tenants = backends({}, { resolve: answering(address) });

      const url = `http://evil.example:${server.port}`;

      expect(await ask(tenants, url)).toBe('ADDRESS_FORBIDDEN');
      expect(await ask(tenants, url, 'http2')).toBe('ADDRESS_FORBIDDEN');
      expect(await dialled(tenants, url)).toBe('ADDRESS_FORBIDDEN');
      expect(server.accepted()).toBe(0);
    },
  );

  test('one forbidden address among public ones is enough, wherever it stands', async () => {
    const server = await canary();

    for (const addresses of [
      ['192.0.66.2', '127.0.0.1'],
      ['127.0.0.1', '192.0.66.2'],
      ['2606:4700::1', '::1'],
    ]) {
      const tenants = backends({}, { resolve: answering(...addresses) });
      expect(await ask(tenants, `http://mixed.example:${server.port}`)).toBe('ADDRESS_FORBIDDEN');
    }
    expect(server.accepted()).toBe(0);
  });

  test('a name without addresses is refused', async () => {
    expect(await ask(backends({}, { resolve: answering() }), 'http://none.example')).toBe(
      'ADDRESS_FORBIDDEN',
    );
  });

  test.each([
    '8.8.8.8',
    '1.1.1.1',
    '172.32.0.1',
    '100.128.0.1',
    '[2606:4700:4700::1111]',
    '[64:ff9b::808:808]',
  ])('public ones are allowed: %s', (host) => {
    expect(backends().for(`https://${host}`).refused).toBeUndefined();
  });
});

async function dialled(tenants: TenantBackends, url: string): Promise<string> {
  const backend = tenants.for(url);
  if (backend.refused !== undefined) return backend.refused;
  return backend.upstream.dial().then(
    () => 'dialled',
    (failure: unknown) => (failure instanceof Error && 'code' in failure ? String(failure.code) : 'failed'),
  );
}

/** A name server whose answer changes with every question: TTL 0, an A record. */
async function nameServer(answers: readonly string[]): Promise<{ resolve: ResolveAll; asked(): number }> {
  const socket = createSocket('udp4');
  let asked = 0;
  socket.on('message', (question, from) => {
    const type = question.readUInt16BE(question.length - 4);
    const header = Buffer.from(question.subarray(0, 12));
    header.writeUInt16BE(0x81_80, 2);
    header.writeUInt16BE(type === 1 ? 1 : 0, 6);
    header.writeUInt16BE(0, 10);
    const parts = [header, question.subarray(12)];
    if (type === 1) {
      const address = answers[Math.min(asked, answers.length - 1)] ?? '';
      asked += 1;
      parts.push(Buffer.from([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number)]));
    }
    socket.send(Buffer.concat(parts), from.port, from.address);
  });
  await new Promise<void>((resolve) => {
    socket.bind(0, '127.0.0.1', resolve);
  });
  const resolver = new Resolver();
  resolver.setServers([`127.0.0.1:${socket.address().port}`]);
  onTestFinished(() => {
    resolver.cancel();
    socket.close();
  });
  const resolve: ResolveAll = (host, callback) => {
    resolver.resolve4(host, (failure, addresses) => {
      callback(failure, failure === null ? addresses.map((address) => ({ address, family: 4 })) : []);
    });
  };
  return { resolve, asked: () => asked };
}

describe('names that change their address', () => {
  test('public at first and private later: every connection is checked for itself', async () => {
    const server = await canary();
    const dns = await nameServer(['192.0.66.2', '127.0.0.1']);
    const url = `http://rebind.example:${server.port}`;
    const checkFirst = await new Promise((resolve) => {
      dns.resolve('rebind.example', (_failure, [first]) => resolve(first?.address));
    });

    const answers = [];
    const tenants = backends({}, { resolve: dns.resolve });
    for (let turn = 0; turn < 5; turn += 1) answers.push(await ask(tenants, url));

    expect(checkFirst).toBe('192.0.66.2');
    expect(new Set(answers)).toEqual(new Set(['ADDRESS_FORBIDDEN']));
    expect(dns.asked()).toBe(6);
    expect(server.accepted()).toBe(0);
  });

  test('the address that was checked is dialled: one question per connection', async () => {
    const server = await canary();
    const dns = await nameServer(['127.0.0.1', '127.0.0.2']);
    const tenants = backends({ deny_private_networks: false }, { resolve: dns.resolve });

    expect(await ask(tenants, `http://rebind.example:${server.port}`)).toBe('canary');
    expect(dns.asked()).toBe(1);
  });
});

describe('hosts', () => {
  test('an allow-listed host may be private, by name and by address', async () => {
    const server = await canary();
    const policy = { allowed_hosts: ['Service.Internal.', '127.0.0.1', '::1'] };
    const tenants = backends(policy, { resolve: answering('127.0.0.1') });

    expect(await ask(tenants, `http://service.internal:${server.port}`)).toBe('canary');
    expect(await ask(tenants, `http://SERVICE.internal.:${server.port}/`)).toBe('canary');
    expect(await ask(tenants, `http://127.0.0.1:${server.port}`)).toBe('canary');
    expect(tenants.for('http://[::1]').refused).toBeUndefined();
    expect(tenants.size).toBe(3);
  });

  test.each([
    'http://service.internal.evil.example',
    'http://evil-service.internal',
    'http://sub.service.internal',
    'http://service.internal..',
    'http://service.internal@evil.example',
    'http://service.internal:80@evil.example',
    'http://@evil.example',
    'http://evil.example#@service.internal/',
    'http://evil.example?@service.internal/',
    'http://evil.example\\@service.internal/',
    'http:\\\\service.internal',
    'http:/service.internal',
    'http:service.internal',
    '//service.internal',
    'service.internal',
    'http://ſervice.internal',
    'http://service。internal',
    'http://service.internal/path',
    'http://service.internal/?',
    'http://service.internal/#',
    'http://service.internal\r\nX: y',
    ' http://service.internal',
    'http://service.internal ',
    'http://service\t.internal',
    'http://service.internal\u0000',
    `http://service.internal/${'a'.repeat(65_536)}`,
    `http://${'a'.repeat(300)}.internal`,
    'http://xn--service-internal-.example',
    'http://127.0.0.1',
    '',
  ])('only exactly what is allowed is: not %j', (url) => {
    expect(backends({ allowed_hosts: ['service.internal'] }).for(url).refused).toBeDefined();
  });

  test.each([
    'file:///etc/passwd',
    'gopher://service.internal',
    'ftp://service.internal',
    'unix:/run/docker.sock',
    'http+unix://%2Frun%2Fdocker.sock',
    'javascript:alert(1)',
    'ws://service.internal',
    'data:text/plain,x',
  ])('only http and https are followed: not %s', (url) => {
    expect(backends().for(url).refused).toBe('scheme');
  });

  test('a scheme that is not listed is refused', () => {
    const tenants = backends({ allowed_schemes: ['https'] });

    expect(tenants.for('http://tenant.example').refused).toBe('scheme');
    expect(tenants.for('https://tenant.example').refused).toBeUndefined();
  });

  test('a port that is not listed is refused, the one that is left out too', () => {
    const tenants = backends({ allowed_ports: [443, 8443] });

    expect(tenants.for('https://tenant.example').refused).toBeUndefined();
    expect(tenants.for('https://tenant.example:8443').refused).toBeUndefined();
    expect(tenants.for('http://tenant.example').refused).toBe('port');
    expect(tenants.for('https://tenant.example:6379').refused).toBe('port');
    expect(backends().for('https://tenant.example:0').refused).toBe('port');
    expect(backends().for('https://tenant.example:99999').refused).toBe('malformed');
  });
});

describe('the gateway itself', () => {
  test('is no backend, at no address it listens on, even if its host is allowed', async () => {
    const server = await canary();
    const own = { ownListeners: [{ host: '0.0.0.0', port: server.port }], ownAddresses: ['192.0.66.9'] };
    const policy = { allowed_hosts: ['gateway.internal', '127.0.0.1', '192.0.66.9', 'localhost'] };
    const tenants = backends(policy, { ...own, resolve: answering('127.0.0.1') });

    expect(await ask(tenants, `http://gateway.internal:${server.port}`)).toBe('ADDRESS_FORBIDDEN');
    expect(await ask(tenants, `http://127.0.0.1:${server.port}`)).toBe('self');
    expect(await ask(tenants, `http://192.0.66.9:${server.port}`)).toBe('self');
    expect(server.accepted()).toBe(0);
    expect(tenants.for(`http://127.0.0.1:${server.port === 1 ? 2 : 1}`).refused).toBeUndefined();
  });

  test('a listener on all addresses is found at those of the interfaces', () => {
    const own = { ownListeners: [{ host: '', port: 8080 }] };
    const tenants = backends({ deny_private_networks: false }, own);
    const addresses = Object.values(networkInterfaces()).flatMap((list = []) => list);

    for (const { address, family } of addresses) {
      const host = family === 'IPv6' ? `[${address}]` : address;
      expect(tenants.for(`http://${host}:8080`).refused).toBe('self');
    }
    expect(tenants.for('http://8.8.8.8:8080').refused).toBeUndefined();
  });

  test('a listener on one address leaves the others free', () => {
    const own = { ownListeners: [{ host: '127.0.0.1', port: 9090 }] };
    const tenants = backends({ deny_private_networks: false }, own);

    expect(tenants.for('http://127.0.0.1:9090').refused).toBe('self');
    expect(tenants.for('http://[::ffff:127.0.0.1]:9090').refused).toBe('self');
    expect(tenants.for('http://0.0.0.0:9090').refused).toBe('self');
    expect(tenants.for('http://127.0.0.2:9090').refused).toBeUndefined();
  });
});

describe('how many there are', () => {
  test('the one that was not used for the longest time makes room, and its connections are closed', async () => {
    const server = await canary();
    const tenants = backends(
      { deny_private_networks: false },
      { maxBackends: 2, resolve: answering('127.0.0.1') },
    );
    const at = (name: string): string => `http://${name}.example:${server.port}`;

    await ask(tenants, at('a'));
    await ask(tenants, at('b'));
    await ask(tenants, at('a'));
    expect(server.sockets.size).toBe(2);
    tenants.for(at('c'));

    await until(() => server.sockets.size === 1);
    expect(tenants.size).toBe(2);
    expect(await ask(tenants, at('a'))).toBe('canary');
    expect(server.accepted()).toBe(2);
  });

  test('a request under way is finished after its backend made room', async () => {
    const server = await listen(
      createServer((_request, response) => setTimeout(() => response.end('late'), 100)),
    );
    const tenants = backends({ deny_private_networks: false }, { maxBackends: 1 });
    const backend = tenants.for(`http://127.0.0.1:${server.port}`);
    if (backend.refused !== undefined) throw new Error(backend.detail);
    const { upstream } = backend;
    const end = upstream.begin();

    tenants.for('http://127.0.0.2:1');

    expect(await textOf(upstream.pool)).toBe('late');
    end();
    await until(() => server.sockets.size === 0);
  });

  test('a million names do not add up', () => {
    const tenants = backends();

    for (let index = 0; index < 3000; index += 1) tenants.for(`https://tenant-${index}.example`);

    expect(tenants.size).toBe(1000);
  });
});

test('a redirect is an answer like any other', async () => {
  const server = await canary();
  const redirecting = await listen(
    createServer((_request, response) => {
      response.writeHead(302, { location: `http://127.0.0.1:${server.port}/` }).end('see other');
    }),
  );
  const tenants = backends({ allowed_hosts: ['127.0.0.1'] });

  expect(await ask(tenants, `http://127.0.0.1:${redirecting.port}`)).toBe('see other');
  expect(server.accepted()).toBe(0);
});
