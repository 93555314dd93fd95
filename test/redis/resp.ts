// RESP2, as far as assertions need it: https://redis.io/docs/latest/develop/reference/protocol-spec/

/** An error that the server sent, like `WRONGTYPE …`. */
export class ReplyError extends Error {
  override readonly name = 'ReplyError';
}

export type Argument = string | number | Uint8Array;
export type Reply = string | number | null | ReplyError | Reply[];

/** The elements of an array reply; none for any other reply. */
export function elementsOf(reply: Reply): readonly Reply[] {
  return Array.isArray(reply) ? reply : [];
}

interface Parsed {
  readonly reply: Reply;
  /** Where the next reply starts. */
  readonly end: number;
}

export function encodeCommand(args: readonly Argument[]): Buffer {
  const parts = args.flatMap((argument) => {
    const bytes = typeof argument === 'number' ? Buffer.from(String(argument)) : Buffer.from(argument);
    return [Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n')];
  });
  return Buffer.concat([Buffer.from(`*${args.length}\r\n`), ...parts]);
}

/** Reads the reply that starts at `start`; undefined while bytes of it are missing. */
export function parseReply(bytes: Buffer, start = 0): Parsed | undefined {
  const lineEnd = bytes.indexOf('\r\n', start);
  if (lineEnd === -1) return undefined;
  const type = bytes.toString('latin1', start, start + 1);
  const line = bytes.toString('utf8', start + 1, lineEnd);
  const end = lineEnd + 2;
  switch (type) {
    case '+':
      return { reply: line, end };
    case '-':
      return { reply: new ReplyError(line), end };
    case ':':
      return { reply: Number(line), end };
    case '$':
      return parseBulk(bytes, end, Number(line));
    case '*':
      return parseArray(bytes, end, Number(line));
    default:
      throw new Error(`Not a RESP2 reply: ${type}${line}`);
  }
}

function parseBulk(bytes: Buffer, start: number, length: number): Parsed | undefined {
  if (length === -1) return { reply: null, end: start };
  const end = start + length + 2;
  return bytes.length < end ? undefined : { reply: bytes.toString('utf8', start, start + length), end };
}

function parseArray(bytes: Buffer, start: number, length: number): Parsed | undefined {
  if (length === -1) return { reply: null, end: start };
  const replies: Reply[] = [];
  let end = start;
  while (replies.length < length) {
    const element = parseReply(bytes, end);
    if (element === undefined) return undefined;
    replies.push(element.reply);
    end = element.end;
  }
  return { reply: replies, end };
}
