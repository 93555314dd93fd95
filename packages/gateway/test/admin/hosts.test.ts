// Which hosts are served without being named in the configuration: those that no page of an attacker can have.
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { createGuard } from '../../src/admin/guard.ts';
import { CONFIG, configOf } from './running-admin.ts';

const SILENT = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

interface Asked {
  readonly address: string;
  readonly localAddress?: string | undefined;
  readonly host: string;
}

/** Whether a request for a host is let in, at an `admin.address`, over a connection to an address of this machine. */
function isServed({ address, localAddress, host }: Asked): boolean {
  const { config } = configOf(
    CONFIG.replace('address: "127.0.0.1:0"', `address: "${address}"\n  token: 0123456789abcdef`),
  );
  const socket = new Socket();
  Object.defineProperty(socket, 'localAddress', { value: localAddress });
  const request = new IncomingMessage(socket);
  request.headersDistinct = { host: [host] };
  try {
    createGuard(() => config.admin, SILENT).requireHost(request);
    return true;
  } catch (failure) {
    expect(failure).toMatchObject({ code: 'MISDIRECTED_HOST' });
    return false;
  }
}

test.each([
  ['gw.internal:9090', 'GW.internal:9090', true],
  ['10.1.2.3:9090', '10.1.2.3:9090', true],
  ['10.1.2.3:9090', '10.1.2.4:9090', false],
  ['10.1.2.3:9090', 'localhost', true],
  ['[fd00::1]:9090', '[FD00::1]:9090', true],
  ['0.0.0.0:9090', '0.0.0.0:9090', false],
  ['[::]:9090', '[::]:9090', false],
  [':9090', '', false],
  [':9090', ':9090', false],
])('at admin.address %s the host %j is served: %j', (address, host, served) => {
  expect(isServed({ address, host })).toBe(served);
});

test.each([
  ['10.1.2.3', '10.1.2.3:9090', true],
  ['::ffff:10.1.2.3', '10.1.2.3', true],
  ['fd00::1', '[fd00::1]:9090', true],
  ['10.1.2.3', '10.1.2.4', false],
  ['10.1.2.3', '10.1.2.3.evil.example', false],
  ['fd00::1', 'fd00::1', false],
  [undefined, 'undefined', false],
  [undefined, '', false],
])('over a connection to %s the host %j is served: %j', (localAddress, host, served) => {
  expect(isServed({ address: ':9090', localAddress, host })).toBe(served);
});
