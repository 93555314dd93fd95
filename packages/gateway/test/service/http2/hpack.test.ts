// Headers of HTTP/2: the examples of RFC 7541, what must not be read, and what is remembered.
import { describe, expect, test } from 'vitest';
import {
  CompressionError,
  HeaderDecoder,
  type HeaderBlock,
  encodeHeaders,
} from '../../../src/service/http2/hpack.ts';
import { hpack } from '../../proxy/http2-frames.ts';

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');
const shownAs = ({ fields }: HeaderBlock): readonly string[] =>
  fields.map(({ name, value }) => `${name}: ${value}`);

const REQUESTS = [
  [':method: GET', ':scheme: http', ':path: /', ':authority: www.example.com'],
  [':method: GET', ':scheme: http', ':path: /', ':authority: www.example.com', 'cache-control: no-cache'],
  [
    ':method: GET',
    ':scheme: https',
    ':path: /index.html',
    ':authority: www.example.com',
    'custom-key: custom-value',
  ],
];

const RESPONSES = [
  ['302', 'private', 'Mon, 21 Oct 2013 20:13:21 GMT', 'https://www.example.com'],
  ['307', 'private', 'Mon, 21 Oct 2013 20:13:21 GMT', 'https://www.example.com'],
].map(([status, cache, date, location]) => [
  `:status: ${status}`,
  `cache-control: ${cache}`,
  `date: ${date}`,
  `location: ${location}`,
]);

test.each([
  {
    name: 'C.3, requests without Huffman',
    blocks: [
      '828684410f7777772e6578616d706c652e636f6d',
      '828684be58086e6f2d6361636865',
      '828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565',
    ],
    read: REQUESTS,
  },
  {
    name: 'C.4, requests with Huffman',
    blocks: [
      '828684418cf1e3c2e5f23a6ba0ab90f4ff',
      '828684be5886a8eb10649cbf',
      '828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf',
    ],
    read: REQUESTS,
  },
  {
    name: 'C.6, responses with Huffman',
    blocks: [
      '488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3',
      '4883640effc1c0bf',
    ],
    read: RESPONSES,
  },
])('RFC 7541 $name', ({ blocks, read }) => {
  const decoder = new HeaderDecoder();

  expect(blocks.map((block) => shownAs(decoder.decode(hex(block))))).toEqual(read);
});

test.each([
  ['an index that nothing has', 'be'],
  ['the index 0', '80'],
  ['an index behind the table', 'ff00'],
  ['a number that ends in the middle', 'ff80'],
  ['a number without an end', 'ffffffffffffffffffffff'],
  ['a number of empty bytes', 'ff808080808080808000'],
  ['a name longer than the block', '000a61'],
  ['a value longer than the block', '0001610a62'],
  ['a header without a value', '000161'],
  ['a table larger than was agreed', '3fe21f'],
  ['a table that is resized behind a header', '8220'],
  ['a text in Huffman with the end of a text within', '000161 84 ffffffff'],
  ['a text in Huffman with a whole byte of padding', '000161 82 1fff'],
  ['a text in Huffman whose padding has zeros', '000161 81 18'],
])('%s breaks the connection', (_, block) => {
  expect(() => new HeaderDecoder().decode(hex(block))).toThrow(CompressionError);
});

describe('the table', () => {
  const insert = (name: string, value: string): Buffer =>
    Buffer.concat([Buffer.from([0x40]), hpack([[name, value]]).subarray(1)]);
  const NEWEST = hex('be');

  test('forgets the oldest when it is full, and everything when it is resized to nothing', () => {
    const decoder = new HeaderDecoder();
    decoder.decode(insert('a', 'x'.repeat(2000)));
    decoder.decode(insert('b', 'y'.repeat(1990)));

    expect(shownAs(decoder.decode(hex('bf')))[0]).toMatch(/^a: /);
    decoder.decode(insert('c', 'z'.repeat(100)));
    expect(shownAs(decoder.decode(NEWEST))[0]).toMatch(/^c: /);
    expect(shownAs(decoder.decode(hex('bf')))[0]).toMatch(/^b: /);
    expect(() => decoder.decode(hex('c0'))).toThrow(CompressionError);
    expect(() => decoder.decode(hex('20be'))).toThrow(CompressionError);
  });

  test('is empty behind a header that is larger than it', () => {
    const decoder = new HeaderDecoder();
    decoder.decode(insert('a', 'x'));

    expect(shownAs(decoder.decode(insert('b', 'y'.repeat(5000))))).toHaveLength(1);
    expect(() => decoder.decode(NEWEST)).toThrow(CompressionError);
  });

  test('may be resized to nothing and back at the beginning of a block', () => {
    const decoder = new HeaderDecoder();
    decoder.decode(insert('a', 'x'));

    expect(shownAs(decoder.decode(Buffer.concat([hex('203fe11f'), insert('b', 'y')])))).toEqual(['b: y']);
    expect(shownAs(decoder.decode(NEWEST))).toEqual(['b: y']);
  });

  test('gives the same bytes another meaning when it changes', () => {
    const decoder = new HeaderDecoder();
    decoder.decode(insert('a', 'x'));
    const [first, again] = [decoder.decode(NEWEST), decoder.decode(NEWEST)];
    decoder.decode(insert('b', 'y'));

    expect(again).toBe(first);
    expect(shownAs(first)).toEqual(['a: x']);
    expect(shownAs(decoder.decode(NEWEST))).toEqual(['b: y']);
  });
});

test.each([
  ['65,536 bytes', 65_536 - 32 - 1, 1, false],
  ['a byte more', 65_536 - 32, 1, true],
  ['128 headers', 1, 128, false],
  ['129 headers', 1, 129, true],
])('%s: what is too large is read to its end, and not kept', (_, length, count, tooLarge) => {
  const block = hpack(Array.from({ length: count }, () => ['a', 'x'.repeat(length)] as const));
  const decoder = new HeaderDecoder();

  const list = decoder.decode(block);

  expect(list.tooLarge).toBe(tooLarge);
  expect(list.fields).toHaveLength(tooLarge ? count - 1 : count);
});

test('a block that stands for 250 MB is not kept', () => {
  const decoder = new HeaderDecoder();
  decoder.decode(Buffer.concat([Buffer.from([0x40]), hpack([['a', 'x'.repeat(4000)]]).subarray(1)]));

  const list = decoder.decode(Buffer.alloc(62_500, 0xbe));

  expect(list.tooLarge).toBe(true);
  expect(list.fields.length).toBeLessThan(17);
});

test('what we write is read again', () => {
  const pairs = [
    ['content-type', 'application/grpc'],
    ['grpc-message', 'a'.repeat(5000)],
    ['x-empty', ''],
    ['x-bytes', 'ÿ\t~'],
  ] as const;

  const statuses = [200, 418].map((status) =>
    shownAs(new HeaderDecoder().decode(encodeHeaders(pairs, status))),
  );

  const lines = pairs.map(([name, value]) => `${name}: ${value}`);
  expect(statuses).toEqual([
    [':status: 200', ...lines],
    [':status: 418', ...lines],
  ]);
});
