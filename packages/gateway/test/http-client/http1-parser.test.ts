// The parser of responses, against a model of them and against Node.js's own parser.
import * as fc from 'fast-check';
import { once } from 'node:events';
import { request as nodeRequest, type IncomingMessage } from 'node:http';
import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { ResponseParser } from '../../src/http-client/http1/response-parser.ts';
import { listen } from '../proxy/local-server.ts';
import { runs } from '../../../../test/runs.ts';

interface Heard {
  readonly informational: number[];
  status: number;
  headers: readonly string[];
  body: string;
  trailers: readonly string[];
  /** Not a byte behind the response; undefined: it is not complete. */
  clean: boolean | undefined;
  keepAlive: boolean;
}

/** Reads bytes in pieces, from a buffer that is used again for every piece. */
function read(bytes: Buffer, pieces: readonly number[], { method = 'GET', closes = false } = {}): Heard {
  const heard: Heard = {
    informational: [],
    status: 0,
    headers: [],
    body: '',
    trailers: [],
    clean: undefined,
    keepAlive: false,
  };
  const kept: Buffer[] = [];
  const parser = new ResponseParser({
    head: ({ status, headers, keepAlive }) => {
      if (status < 200) heard.informational.push(status);
      else Object.assign(heard, { status, headers, keepAlive });
    },
    data: (chunk) => kept.push(chunk),
    complete: (trailers, clean) => Object.assign(heard, { trailers, clean }),
    upgraded: () => undefined,
  });
  parser.expect({ method, mayUpgrade: false });
  const shared = Buffer.alloc(bytes.length + 100);
  let at = 0;
  for (const end of [...pieces, bytes.length]) {
    if (end <= at || heard.clean !== undefined) continue;
    shared.fill('\r\n0');
    bytes.copy(shared, 0, at, end);
    parser.read(shared, end - at);
    at = end;
  }
  if (closes && parser.endsWithConnection) parser.end();
  if (heard.clean === true && at < bytes.length) heard.clean = false;
  heard.body = Buffer.concat(kept).toString('latin1');
  return heard;
}

const name = fc
  .stringMatching(/^[!#$%&'*+\-.^_`|~\dA-Za-z]{1,20}$/)
  .filter((text) => !/^(?:content-length|transfer-encoding|connection|keep-alive)$/i.test(text));
const value = fc.stringMatching(/^(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]{0,20}[!-~\x80-\xff])?)?$/);
const lines = fc.array(fc.tuple(name, value), { maxLength: 8 });
const content = fc.string({ unit: 'binary-ascii', maxLength: 60 });
const blank = fc.constantFrom('', ' ', '\t', '  ');

const framed = fc.oneof(
  content.map((body) => ({ framing: `Content-Length: ${body.length}\r\n`, wire: body, body, trailers: [] })),
  fc
    .record({
      chunks: fc.array(
        content.filter((chunk) => chunk !== ''),
        { maxLength: 5 },
      ),
      extension: fc.constantFrom('', ';a=b', ';a;b', ';q="x y"'),
      upper: fc.boolean(),
      trailers: lines,
    })
    .map(({ chunks, extension, upper, trailers }) => {
      const size = (chunk: string) => {
        const digits = chunk.length.toString(16);
        return upper ? `00${digits.toUpperCase()}` : digits;
      };
      const parts = chunks.map((chunk) => `${size(chunk)}${extension}\r\n${chunk}\r\n`);
      const last = trailers.map(([field, text]) => `${field}: ${text}\r\n`).join('');
      return {
        framing: 'transfer-ENCODING: Chunked\r\n',
        wire: `${parts.join('')}0\r\n${last}\r\n`,
        body: chunks.join(''),
        trailers: trailers.flat(),
      };
    }),
);

const response = fc
  .record({
    informational: fc.array(fc.constantFrom(100, 102, 103), { maxLength: 2 }),
    status: fc.constantFrom(200, 201, 206, 302, 404, 429, 500, 599),
    reason: fc.constantFrom('', ' ', ' OK', ' Not \xc4 thing'),
    before: lines,
    after: lines,
    blank,
    framed,
  })
  .map(
    ({
      informational,
      status,
      reason,
      before,
      after,
      blank: gap,
      framed: { framing, wire, body, trailers },
    }) => {
      const early = informational.map((code) => `HTTP/1.1 ${code} x\r\nA: b\r\n\r\n`).join('');
      const text = (fields: [string, string][]) =>
        fields.map(([field, line]) => `${field}:${gap}${line}${gap}\r\n`).join('');
      const head = `HTTP/1.1 ${status}${reason}\r\n${text(before)}${framing}${text(after)}\r\n`;
      return {
        bytes: Buffer.from(early + head + wire, 'latin1'),
        informational,
        status,
        body,
        trailers,
        before,
        after,
      };
    },
  );

test('a response reads the same, however it is cut into pieces', () => {
  fc.assert(
    fc.property(response, fc.array(fc.nat(400), { maxLength: 12 }), (given, cuts) => {
      const within = cuts.map((cut) => cut % given.bytes.length);
      const heard = read(
        given.bytes,
        within.toSorted((a, b) => a - b),
      );

      expect(heard).toMatchObject({
        informational: given.informational,
        status: given.status,
        body: given.body,
        trailers: given.trailers,
        clean: true,
        keepAlive: true,
      });
      expect(heard.headers.slice(0, 2 * given.before.length)).toEqual(given.before.flat());
      expect(heard.headers.slice(2 * given.before.length + 2)).toEqual(given.after.flat());
    }),
    { numRuns: runs(500) },
  );
});

test('every single cut, and every byte on its own, give the same response', () => {
  const text =
    'HTTP/1.1 103 Early\r\nLink: <a>\r\n\r\nHTTP/1.1 200 OK\r\nA: 1\r\nTransfer-Encoding: chunked\r\n\r\n' +
    '5;x=y\r\nhello\r\n0003\r\n wo\r\n3\r\nrld\r\n0\r\nX-Sum: 9\r\n\r\n';
  const bytes = Buffer.from(text);
  const whole = read(bytes, []);

  expect(whole).toMatchObject({ status: 200, body: 'hello world', trailers: ['X-Sum', '9'], clean: true });
  for (let cut = 1; cut < bytes.length; cut += 1) expect(read(bytes, [cut])).toEqual(whole);
  expect(
    read(
      bytes,
      Array.from(bytes, (_, at) => at),
    ),
  ).toEqual(whole);
});

test('a response that breaks off anywhere is never complete, and one with more behind it is never clean', () => {
  fc.assert(
    fc.property(
      response,
      fc.nat(),
      content.filter((more) => more !== ''),
      (given, cut, more) => {
        const part = given.bytes.subarray(0, cut % given.bytes.length);

        expect(read(part, [], { closes: true }).clean).toBeUndefined();
        expect(read(Buffer.concat([given.bytes, Buffer.from(more)]), []).clean).toBe(false);
      },
    ),
  );
});

test.each([
  ['HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n', 'HEAD'],
  ['HEAD with chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', 'HEAD'],
  ['304', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n', 'GET'],
  ['204', 'HTTP/1.1 204 No Content\r\n\r\n', 'GET'],
  ['204 of length 0', 'HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n', 'GET'],
  ['no reason', 'HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n', 'GET'],
])('an answer to %s ends with its head', (_, text, method) => {
  expect(read(Buffer.from(text), [], { method })).toMatchObject({ body: '', clean: true, keepAlive: true });
});

test.each([
  ['HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n', true],
  ['HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n', true],
  ['HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n', false],
  ['HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: X-A, Close\r\n\r\n', false],
  ['HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n', false],
  ['HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n', false],
  ['HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n\r\n', true],
  ['HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: x\r\n\r\n', false],
  // Some send the end of chunks where no body can be.
  ['HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n', false],
])('%j says whether the connection goes on', (text, keepAlive) => {
  expect(read(Buffer.from(text), [])).toMatchObject({ clean: true, keepAlive });
});

test('a body without a length ends with the connection', () => {
  const bytes = Buffer.from('HTTP/1.1 200 OK\r\n\r\nall of it');

  expect(read(bytes, [25])).toMatchObject({ body: 'all of it', clean: undefined });
  expect(read(bytes, [25], { closes: true })).toMatchObject({
    body: 'all of it',
    clean: true,
    keepAlive: false,
  });
});

test.each([
  [
    '16 KiB',
    (more: number) => `HTTP/1.1 200 OK\r\nA: ${'x'.repeat(16_384 - 43 + more)}\r\nContent-Length: 0\r\n\r\n`,
  ],
  [
    '500 lines',
    (more: number) => `HTTP/1.1 200 OK\r\n${'A:\r\n'.repeat(499 + more)}Content-Length: 0\r\n\r\n`,
  ],
])('a head of exactly %s is read, and not a bit more', (_, headWith) => {
  expect(read(Buffer.from(headWith(0)), []).clean).toBe(true);
  expect(read(Buffer.from(headWith(0)), [7, 1000]).clean).toBe(true);
  expect(() => read(Buffer.from(headWith(1)), [])).toThrow(
    /larger than 16384 bytes|more than 500 header lines/,
  );
});

test('an answer that nobody waits for is an error', () => {
  const parser = new ResponseParser({
    head: () => {},
    data: () => {},
    complete: () => {},
    upgraded: () => {},
  });

  expect(() => parser.read(Buffer.from('x'), 1)).toThrow('nobody asked for it');
  expect(() => parser.end()).toThrow('it breaks off');
});

test('a 101 that was asked for hands over every byte behind its head, however it is cut', () => {
  const SWITCH =
    'HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n';
  const bytes = Buffer.from(`${SWITCH}\x81\x02hi`, 'latin1');
  for (let cut = 1; cut <= bytes.length; cut += 1) {
    const informed: number[] = [];
    let tunnelled = '';
    let upgraded: readonly string[] = [];
    const parser = new ResponseParser({
      head: ({ status }) => informed.push(status),
      data: () => undefined,
      complete: () => undefined,
      upgraded: ({ headers }, rest) => {
        upgraded = headers;
        tunnelled = rest.toString('latin1');
      },
    });
    parser.expect({ method: 'GET', mayUpgrade: true });

    const first = Buffer.from(bytes.subarray(0, cut));
    parser.read(first, first.length);
    if (upgraded.length === 0) {
      const second = Buffer.from(bytes.subarray(cut));
      parser.read(second, second.length);
    } else {
      tunnelled += bytes.subarray(cut).toString('latin1');
    }

    expect({ informed, upgraded, tunnelled }).toEqual({
      informed: [103],
      upgraded: ['Upgrade', 'websocket'],
      tunnelled: '\x81\x02hi',
    });
    expect(() => parser.read(Buffer.from('x'), 1)).toThrow('it is not HTTP any more');
  }
});

test.each([
  ['a body', 'HTTP/1.1 101 Switching\r\nContent-Length: 2\r\n\r\nhi'],
  ['the old version', 'HTTP/1.0 101 Switching\r\n\r\n'],
])('a 101 with %s is refused even where it was asked for', (_, text) => {
  const parser = new ResponseParser({
    head: () => undefined,
    data: () => undefined,
    complete: () => undefined,
    upgraded: () => undefined,
  });
  parser.expect({ method: 'GET', mayUpgrade: true });

  expect(() => parser.read(Buffer.from(text), text.length)).toThrow(/is refused/);
});

/** What Node.js makes of bytes; undefined if it refuses them. */
async function readByNode(
  port: number,
): Promise<Omit<Heard, 'clean' | 'keepAlive' | 'informational'> | undefined> {
  try {
    const request = nodeRequest({ port, host: '127.0.0.1', agent: false }).end();
    request.on('error', () => {});
    const [answer] = (await once(request, 'response')) as [IncomingMessage];
    answer.setEncoding('latin1');
    let body = '';
    for await (const chunk of answer) body += String(chunk);
    if (!answer.complete) return undefined;
    return {
      status: answer.statusCode ?? 0,
      headers: answer.rawHeaders,
      body,
      trailers: answer.rawTrailers,
    };
  } catch {
    return undefined;
  }
}

const TRICKS = [
  '\r',
  '\n',
  '\0',
  ' ',
  '\t',
  ':',
  ';',
  ',',
  '0',
  '1',
  'f',
  '\r\n',
  'Content-Length: 1\r\n',
  '\r\n\r\n',
];

test('whatever is read as a whole response, Node.js reads the same way: never more is accepted than there', async () => {
  let sent: Buffer = Buffer.alloc(0);
  const { port } = await listen(
    createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => socket.end(sent));
    }),
  );
  let accepted = 0;
  const edit = fc.record({ at: fc.nat(), remove: fc.nat(2), insert: fc.constantFrom('', ...TRICKS) });

  await fc.assert(
    fc.asyncProperty(response, fc.array(edit, { maxLength: 2 }), async (given, edits) => {
      let text = given.bytes.toString('latin1');
      for (const { at, remove, insert } of edits) {
        const from = at % text.length;
        text = text.slice(0, from) + insert + text.slice(from + remove);
      }
      sent = Buffer.from(text, 'latin1');
      const ours = tried(() => read(sent, [], { closes: true }));
      if (ours?.clean !== true) return;
      accepted += 1;

      const { status, headers, body, trailers } = ours;
      expect(await readByNode(port)).toEqual({ status, headers, body, trailers });
    }),
    { numRuns: 400 },
  );

  expect(accepted).toBeGreaterThan(50);
});

function tried<Result>(attempt: () => Result): Result | undefined {
  try {
    return attempt();
  } catch {
    return undefined;
  }
}
