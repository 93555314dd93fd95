// Connections of the decision service: TLS, client certificates, their age, and how they end.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { connect, constants, type ClientHttp2Session, type IncomingHttpHeaders } from 'node:http2';
import { connect as connectPlain } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as wholeText } from 'node:stream/consumers';
import { connect as connectTls } from 'node:tls';
import { create, toBinary } from '@bufbuild/protobuf';
import { credentials } from '@grpc/grpc-js';
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { createCertificates, type Certificates } from '../../../../test/redis/servers.ts';
import { messageNamed } from '../../src/service/wire/proto-registry.ts';
import { askRls, descriptor } from './rls-client.ts';
import { startTestService } from './running-service.ts';

let certificates: Certificates;

beforeAll(async () => {
  certificates = await createCertificates();
});

function tlsSection(more = ''): string {
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-service-tls-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const at = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return JSON.stringify(join(folder, name));
  };
  const { server, ca } = certificates;
  return `{ enabled: true, cert_file: ${at('s.crt', server.cert)}, key_file: ${at('s.key', server.key)}, client_ca_file: ${at('ca.crt', ca)}${more} }`;
}

const CALL = { descriptors: [descriptor('user=ann')] };
const OK = { overallCode: 'OK' };

describe('with TLS', () => {
  test('gRPC and HTTP/1.1 are served on one port', async () => {
    const service = await startTestService(`service: { tls: ${tlsSection()} }`);
    const ca = Buffer.from(certificates.ca);
    const { request: requestTls } = await import('node:https');

    const grpc = await askRls(service.port, { ...CALL, channel: credentials.createSsl(ca) });
    const status = await new Promise((resolve, reject) => {
      requestTls({ host: '127.0.0.1', port: service.port, path: '/healthcheck', ca }, (response) => {
        response.resume();
        resolve(response.statusCode);
      })
        .once('error', reject)
        .end();
    });

    expect(grpc).toMatchObject(OK);
    expect(status).toBe(200);
  });

  test('only callers with a certificate are served where one is required', async () => {
    const service = await startTestService(`service: { tls: ${tlsSection(', client_auth: require')} }`);
    const { ca, client } = certificates;
    const withCertificate = credentials.createSsl(
      Buffer.from(ca),
      Buffer.from(client.key),
      Buffer.from(client.cert),
    );

    expect(await askRls(service.port, { ...CALL, channel: withCertificate })).toMatchObject(OK);
    expect(await askRls(service.port, { ...CALL, channel: credentials.createSsl(Buffer.from(ca)) })).toMatch(
      /^14: /,
    );
  });
});

async function goaway(session: ClientHttp2Session): Promise<number> {
  return new Promise((resolve) => {
    session.once('goaway', resolve);
  });
}

test('a connection past its age is told to go, without an error', async () => {
  const service = await startTestService('service: { max_connection_age: 100ms }');
  const session = connect(`http://127.0.0.1:${service.port}`);
  const closed = new Promise((resolve) => session.once('close', resolve));

  expect(await goaway(session)).toBe(0);
  await closed;
});

describe('HTTP/2 that is not used', () => {
  /** Time that only the service's own looks at its connections notice. */
  function ownTime(): (ms: number) => void {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    return (ms) => void vi.advanceTimersByTime(ms);
  }

  test('a connection without a call for two minutes is told to go; one with calls stays', async () => {
    const pass = ownTime();
    const service = await startTestService('service: {}');
    const [idle, used] = [await connected(service.port), await connected(service.port)];
    const closed = new Promise((resolve) => idle.once('close', resolve));
    const told = goaway(idle);
    for (let seconds = 0; seconds < 150; seconds += 30) {
      const call = callOfEnvoy(used);
      call.stream.end(call.message);
      await new Promise((resolve) => call.stream.resume().once('close', resolve));
      pass(30_000);
    }

    expect(await told).toBe(0);
    await closed;
    expect(used.closed).toBe(false);
    used.close();
  });

  test('a call that does not arrive within half a minute is broken off', async () => {
    const pass = ownTime();
    const service = await startTestService('service: {}');
    const session = await connected(service.port);
    const call = callOfEnvoy(session);
    const broken = new Promise((resolve) =>
      call.stream.once('error', () => undefined).once('close', resolve),
    );
    call.stream.write(call.message.subarray(0, 7));
    await new Promise((resolve) => session.ping(() => resolve(undefined)));

    pass(60_000);
    await broken;

    expect(call.stream.rstCode).toBe(constants.NGHTTP2_CANCEL);
    session.close();
  });
});

describe('when the service closes', () => {
  test('a caller over HTTP/2 is told to go, and an idle one over HTTP/1.1 is closed', async () => {
    const service = await startTestService('service: {}');
    const agent = new Agent({ keepAlive: true });
    await service.ask('/healthcheck', { agent });
    const session = connect(`http://127.0.0.1:${service.port}`);
    await new Promise((resolve) => session.once('remoteSettings', resolve));
    const told = goaway(session);

    // It would wait for so long if one of the two stayed.
    await service.close(60_000);

    expect(await told).toBe(0);
    agent.destroy();
  });

  test('a call in flight is answered first', async () => {
    const service = await startTestService(
      'rate_limit: { policies: { api: { algorithm: fixedWindow, quota: 1, window: 1d } } }',
    );
    const body = JSON.stringify({ policy: 'api', key: 'ann' });
    const headers = { 'content-type': 'application/json', 'content-length': body.length };
    const call = request({
      host: '127.0.0.1',
      port: service.port,
      path: '/v1/check',
      method: 'POST',
      headers,
    });
    const answered = new Promise<number | undefined>((resolve, reject) => {
      call.once('error', reject).once('response', (response) => {
        response.resume();
        resolve(response.statusCode);
      });
    });
    // The service has the call, but not all of its body.
    call.write(body.slice(0, 5));
    await service.ask('/healthcheck');
    const closed = service.close(60_000);
    call.end(body.slice(5));

    expect(await answered).toBe(200);
    await closed;
  });

  test('so is a call of Envoy, and then the connection ends', async () => {
    const service = await startTestService('service: {}');
    const session = await connected(service.port);
    const ended = new Promise((resolve) => session.once('close', resolve));
    const call = callOfEnvoy(session);
    call.stream.write(call.message.subarray(0, 7));
    // It has arrived: the service answers in the order of what it reads.
    await new Promise((resolve) => session.ping(resolve));
    const told = goaway(session);
    const closed = service.close(60_000);
    await told;

    call.stream.end(call.message.subarray(7));

    expect(await call.status).toBe('0');
    await Promise.all([closed, ended]);
  });
});

test('callers that go away in the middle of a call harm nobody', async () => {
  const service = await startTestService('service: {}');
  const [gone, cut] = [await connected(service.port), await connected(service.port)];
  for (const session of [gone, cut]) {
    const { stream, message } = callOfEnvoy(session);
    stream.write(message.subarray(0, 7));
    stream.on('error', () => undefined);
    await new Promise((resolve) => session.ping(resolve));
    if (session === gone) stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  }
  cut.destroy();
  gone.close();

  expect(await askRls(service.port, CALL)).toMatchObject(OK);
});

async function connected(port: number): Promise<ClientHttp2Session> {
  const session = connect(`http://127.0.0.1:${port}`);
  await new Promise((resolve) => session.once('remoteSettings', resolve));
  return session;
}

/** A call that is not sent yet; `message` is all of its body. */
function callOfEnvoy(session: ClientHttp2Session) {
  const input = messageNamed('envoy.service.ratelimit.v3.RateLimitRequest');
  const bytes = toBinary(input, create(input, { domain: 'shop', descriptors: CALL.descriptors }));
  const stream = session.request({
    ':method': 'POST',
    ':path': '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  stream.resume();
  const status = new Promise<unknown>((resolve) => {
    stream.once('trailers', (trailers: IncomingHttpHeaders) => resolve(trailers['grpc-status']));
  });
  return { stream, message: Buffer.concat([Buffer.from([0, 0, 0, 0, bytes.length]), bytes]), status };
}

test('whoever does not come to the end of its headers is cut off after ten seconds, with TLS and without', async () => {
  const [plain, secure] = [
    await startTestService('service: {}'),
    await startTestService(`service: { tls: ${tlsSection()} }`),
  ];
  const sockets = [
    connectPlain(plain.port, '127.0.0.1'),
    connectTls({ port: secure.port, host: '127.0.0.1', ca: certificates.ca, ALPNProtocols: ['http/1.1'] }),
  ];

  const heard = await Promise.all(
    sockets.map(async (socket) => {
      socket.write('GET /healthcheck HTTP/1.1\r\nHost: a\r\nX-');
      return wholeText(socket);
    }),
  );

  for (const answer of heard) expect(answer).toContain('408 Request Timeout');
});
