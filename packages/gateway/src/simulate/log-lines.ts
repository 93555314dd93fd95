import { createReadStream } from 'node:fs';
import { pipeline, Readable, type Transform } from 'node:stream';
import * as zlib from 'node:zlib';
import { whyUnreadable } from '../config/problem.ts';

/** A log to read: a file, or `-` for standard input. */
export type LogName = string;

/** A log that cannot be read, and why. */
export class UnreadableLog extends Error {}

export const STANDARD_INPUT = '-';
const CHUNK_BYTES = 2 ** 18;
/** A line that is longer is cut: a file without line ends must not fill the memory. */
const MAX_LINE_BYTES = 2 ** 16;
export const LINE_END = 0x0a;
const GZIP = [0x1f, 0x8b];
const ZSTD = [0x28, 0xb5, 0x2f, 0xfd];

/**
 * Whole lines of a log, many at a time with a line end between two of them, unpacked where it is packed. `took` hears
 * how many bytes of the file were read.
 */
export async function* readLogLines(
  name: LogName,
  took: (bytes: number) => void = () => undefined,
): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  let isCut = false;
  try {
    for await (const chunk of unpacked(name, took)) {
      const end = chunk.lastIndexOf(LINE_END);
      if (end === -1) {
        isCut ||= rest.length + chunk.length > MAX_LINE_BYTES;
        rest = Buffer.concat([rest, chunk]).subarray(0, MAX_LINE_BYTES);
        continue;
      }
      const first = rest.length === 0 ? -1 : chunk.indexOf(LINE_END);
      // The end of a line that was cut is not put to its beginning.
      if (first !== -1) yield isCut ? rest : Buffer.concat([rest, chunk.subarray(0, first)]);
      if (first < end) yield chunk.subarray(first + 1, end);
      isCut = false;
      rest = chunk.subarray(end + 1);
    }
  } catch (failure) {
    throw readable(name, failure);
  }
  if (rest.length > 0) yield rest;
}

/** Pieces of the log as it was written: the first bytes tell how it is packed. */
async function* unpacked(name: LogName, took: (bytes: number) => void): AsyncGenerator<Buffer> {
  const pieces = piecesOf(name, took);
  const first = await pieces.next();
  if (first.done === true) return;
  const all = startingWith(first.value, pieces);
  const unpack = unpackerFor(first.value, name);
  if (unpack === undefined) {
    yield* all;
    return;
  }
  // An error of the file comes out of what is read from it.
  pipeline(Readable.from(all, { objectMode: false }), unpack, () => undefined);
  for await (const piece of unpack) if (Buffer.isBuffer(piece)) yield piece;
}

async function* piecesOf(name: LogName, took: (bytes: number) => void): AsyncGenerator<Buffer> {
  const file =
    name === STANDARD_INPUT
      ? createReadStream('', { fd: 0, autoClose: false, highWaterMark: CHUNK_BYTES })
      : createReadStream(name, { highWaterMark: CHUNK_BYTES });
  for await (const piece of file) {
    if (!Buffer.isBuffer(piece)) continue;
    took(piece.length);
    yield piece;
  }
}

async function* startingWith(first: Buffer, rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  yield first;
  yield* rest;
}

function unpackerFor(start: Buffer, name: LogName): Transform | undefined {
  if (GZIP.every((byte, at) => start[at] === byte)) return zlib.createGunzip({ chunkSize: CHUNK_BYTES });
  if (!ZSTD.every((byte, at) => start[at] === byte)) return undefined;
  const create: unknown = Reflect.get(zlib, 'createZstdDecompress');
  if (typeof create !== 'function') {
    const [log, unpack] =
      name === STANDARD_INPUT
        ? ['standard input', 'pipe it through `zstd -dc`']
        : [name, `unpack it with \`zstd -d ${name}\``];
    throw new UnreadableLog(
      `${log} is packed with zstd, which this version of Node.js cannot read: ${unpack} first, or use Node.js 22.15 or newer`,
    );
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion, typescript/no-unsafe-call -- the types of Node.js 20 do not know it
  return create() as Transform;
}

const DAMAGED = 'is packed, and damaged: unpack what is left of it, or leave it out';
const DAMAGES: ReadonlyMap<string, string> = new Map([
  ['Z_BUF_ERROR', 'is packed, and ends too soon: it is still being written, or was cut off'],
  ['Z_DATA_ERROR', DAMAGED],
]);

function readable(name: LogName, failure: unknown): UnreadableLog {
  if (failure instanceof UnreadableLog) return failure;
  const code = failure instanceof Error && 'code' in failure ? String(failure.code) : '';
  const damage = code.startsWith('ZSTD_') ? DAMAGED : DAMAGES.get(code);
  return new UnreadableLog(`${name} ${damage ?? whyUnreadable(failure)}`);
}
