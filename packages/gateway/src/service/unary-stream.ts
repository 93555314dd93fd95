// One unary call of gRPC on its stream of HTTP/2, without a router: the call that Envoy makes for every request takes
// a third of the processor time this way.
import type { IncomingHttpHeaders, OutgoingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import { Code, type ConnectError } from '@connectrpc/connect';

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

export function serveUnary<Request>(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  call: UnaryCall<Request>,
): void {
  const chunks: Buffer[] = [];
  let length = 0;
  stream.on('data', (chunk: Buffer) => {
    length += chunk.length;
    if (length <= call.maxBytes + FRAME_HEAD) chunks.push(chunk);
  });
  stream.on('end', () => {
    const [only] = chunks;
    const body = only !== undefined && chunks.length === 1 ? only : Buffer.concat(chunks);
    void answerCall({ stream, headers, call }, { body, length });
  });
  stream.on('error', ignore);
}

/** A caller that is gone needs no answer. */
function ignore(): void {}

interface OpenCall<Request> {
  readonly stream: ServerHttp2Stream;
  readonly headers: IncomingHttpHeaders;
  readonly call: UnaryCall<Request>;
}

async function answerCall<Request>(
  { stream, headers, call }: OpenCall<Request>,
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
    const frame = await call.answer(request, headers);
    frame.writeUInt8(0, 0);
    frame.writeUInt32BE(frame.length - FRAME_HEAD, 1);
    respond(stream, frame);
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

const HEADERS: OutgoingHttpHeaders = { ':status': 200, 'content-type': 'application/grpc+proto' };
const OK_TRAILERS: OutgoingHttpHeaders = { 'grpc-status': '0' };
const WITH_TRAILERS = { waitForTrailers: true };
const NOT_IN_MESSAGE = /[^ -$&-~]+/gu;

function respond(stream: ServerHttp2Stream, frame: Buffer): void {
  if (isOver(stream)) return;
  stream.respond(HEADERS, WITH_TRAILERS);
  stream.on('wantTrailers', sendOk);
  stream.end(frame);
}

function sendOk(this: ServerHttp2Stream): void {
  this.sendTrailers(OK_TRAILERS);
}

/** A stream that the caller reset is closed before it is destroyed, and throws for an answer. */
export function isOver({ destroyed, closed, headersSent }: ServerHttp2Stream): boolean {
  return destroyed || closed || headersSent;
}

/** Ends a call that has no answer. */
function endUnary(stream: ServerHttp2Stream, { status, message }: UnaryFailure): void {
  if (isOver(stream)) return;
  const said = message.replace(NOT_IN_MESSAGE, encodeURIComponent);
  // What is left of its body would keep the stream open.
  stream.resume();
  stream.respond({ ...HEADERS, 'grpc-status': String(status), 'grpc-message': said }, { endStream: true });
}
