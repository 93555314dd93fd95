// One unary call of gRPC on its stream of HTTP/2, without a router: it is the call that Envoy makes for every request.
import type { IncomingHttpHeaders } from 'node:http2';
import { Code, type ConnectError } from '@connectrpc/connect';
import { encodeHeaders } from './http2/hpack.ts';
import type { ServiceStream, StreamListener } from './http2/stream.ts';

export interface UnaryCall<Request> {
  /** Throws for bytes that are no such message. */
  readonly read: (bytes: Uint8Array) => Request;
  /** The message of the answer, behind `FRAME_HEAD` bytes that are free. Rejects with what `asError` understands. */
  readonly answer: (request: Request, headers: IncomingHttpHeaders) => Promise<Buffer>;
  readonly asError: (failure: unknown) => ConnectError;
  readonly maxBytes: number;
}

/** What stands before a message: whether it is compressed, and four bytes of length. */
export const FRAME_HEAD = 5;

/** Whether a call is so simple: neither compressed nor of another encoding than protobuf. */
export function isPlainUnary(headers: IncomingHttpHeaders, path: string): boolean {
  const { ':path': asked, ':method': method, 'content-type': type, 'grpc-encoding': encoding } = headers;
  return (
    asked === path &&
    method === 'POST' &&
    (type === 'application/grpc' || type === 'application/grpc+proto') &&
    (encoding === undefined || encoding === 'identity') &&
    headers.expect === undefined
  );
}

/** Answers the call of a stream that nobody listens to yet. */
export function serveUnary<Request>(stream: ServiceStream, call: UnaryCall<Request>): void {
  stream.listener = new UnaryListener(stream, call);
}

class UnaryListener<Request> implements StreamListener {
  private readonly stream: ServiceStream;
  private readonly call: UnaryCall<Request>;
  /** What came so far, and behind it room for more. */
  private body: Buffer = NOTHING;
  private length = 0;

  constructor(stream: ServiceStream, call: UnaryCall<Request>) {
    this.stream = stream;
    this.call = call;
  }

  data(chunk: Buffer): boolean {
    const before = this.length;
    this.length += chunk.length;
    // Nearly every message comes in one piece.
    if (before === 0) this.body = chunk;
    else if (this.length <= this.call.maxBytes + FRAME_HEAD) this.append(chunk, before);
    return true;
  }

  end(): void {
    const body = this.body.length > this.length ? this.body.subarray(0, this.length) : this.body;
    void answerCall(this.stream, this.call, { body, length: this.length });
  }

  closed(): void {
    // A caller that is gone needs no answer.
    this.body = NOTHING;
  }

  /** One buffer that doubles: many small pieces must not take many times their size. */
  private append(chunk: Buffer, at: number): void {
    if (this.body.length < this.length) {
      const larger = Buffer.allocUnsafe(2 * this.length);
      larger.set(this.body.subarray(0, at));
      this.body = larger;
    }
    this.body.set(chunk, at);
  }
}

const NOTHING = Buffer.alloc(0);

async function answerCall<Request>(
  stream: ServiceStream,
  call: UnaryCall<Request>,
  sent: { readonly body: Buffer; readonly length: number },
): Promise<void> {
  const problem = frameProblem(sent, call.maxBytes);
  if (problem !== undefined) {
    endUnary(stream, problem);
    return;
  }
  let request: Request;
  try {
    request = call.read(sent.body.subarray(FRAME_HEAD));
  } catch (failure) {
    const why = failure instanceof Error ? failure.message : String(failure);
    endUnary(stream, { status: Code.InvalidArgument, message: `the message cannot be read: ${why}` });
    return;
  }
  try {
    const frame = await call.answer(request, stream.head.headers);
    frame.writeUInt8(0, 0);
    frame.writeUInt32BE(frame.length - FRAME_HEAD, 1);
    stream.answer(HEADERS, frame, OK_TRAILERS);
  } catch (failure) {
    const { code, rawMessage } = call.asError(failure);
    endUnary(stream, { status: code, message: rawMessage });
  }
}

/** Why a call has no answer. */
interface UnaryFailure {
  readonly status: number;
  readonly message: string;
}

/** What is wrong with the frame of a message. */
function frameProblem(
  { body, length }: { readonly body: Buffer; readonly length: number },
  maxBytes: number,
): UnaryFailure | undefined {
  if (length > maxBytes + FRAME_HEAD) {
    return { status: Code.ResourceExhausted, message: `the message has more than ${maxBytes} bytes` };
  }
  if (body.length < FRAME_HEAD || body[0] !== 0 || body.readUInt32BE(1) !== body.length - FRAME_HEAD) {
    return { status: Code.InvalidArgument, message: 'the body is not one message of gRPC' };
  }
  return undefined;
}

const TYPE = ['content-type', 'application/grpc+proto'] as const;
const HEADERS = encodeHeaders([TYPE], 200);
const OK_TRAILERS = encodeHeaders([['grpc-status', '0']]);
const NOT_IN_MESSAGE = /[^ -$&-~]+/gu;

/** Ends a call that has no answer. */
function endUnary(stream: ServiceStream, { status, message }: UnaryFailure): void {
  const said = message.replace(NOT_IN_MESSAGE, encodeURIComponent);
  stream.respond(encodeHeaders([TYPE, ['grpc-status', String(status)], ['grpc-message', said]], 200), true);
}
