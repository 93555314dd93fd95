// One unary gRPC call without a router: the call that Envoy makes for every request takes half the processor time this way.
import { create, fromBinary, toBinary, type DescMethodUnary, type Message } from '@bufbuild/protobuf';
import { Code, type ConnectError } from '@connectrpc/connect';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';

export interface UnaryCall {
  readonly method: DescMethodUnary;
  /** The fields of the answer. Rejects with a `ConnectError`. */
  readonly answer: (message: Message) => Promise<Readonly<Record<string, unknown>>>;
  readonly asError: (failure: unknown) => ConnectError;
  readonly maxBytes: number;
}

const FRAME_HEAD = 5;

/** Whether a call is so simple: neither compressed nor of another encoding than protobuf. */
export function isPlainUnary({
  headers,
  httpVersionMajor,
}: Pick<Http2ServerRequest, 'headers' | 'httpVersionMajor'>): boolean {
  const { 'grpc-encoding': encoding = 'identity', 'content-type': type } = headers;
  return (
    httpVersionMajor === 2 &&
    encoding === 'identity' &&
    (type === 'application/grpc' || type === 'application/grpc+proto')
  );
}

export function serveUnary(
  request: Http2ServerRequest,
  response: Http2ServerResponse,
  call: UnaryCall,
): void {
  const chunks: Buffer[] = [];
  let length = 0;
  request.on('data', (chunk: Buffer) => {
    length += chunk.length;
    if (length <= call.maxBytes + FRAME_HEAD) chunks.push(chunk);
  });
  request.once('end', () => {
    const body = chunks.length === 1 ? (chunks[0] ?? Buffer.alloc(0)) : Buffer.concat(chunks);
    void answerCall(response, call, { body, length });
  });
}

async function answerCall(
  response: Http2ServerResponse,
  call: UnaryCall,
  sent: { readonly body: Buffer; readonly length: number },
): Promise<void> {
  const { method, answer, asError } = call;
  let bytes: Uint8Array;
  try {
    const message = messageIn(sent, call);
    if (typeof message === 'string') {
      end(response, {
        status: sent.length > call.maxBytes ? Code.ResourceExhausted : Code.InvalidArgument,
        message,
      });
      return;
    }
    bytes = toBinary(method.output, create(method.output, await answer(message)));
  } catch (failure) {
    const { code, rawMessage } = asError(failure);
    end(response, { status: code, message: rawMessage });
    return;
  }
  end(response, { status: 0, bytes });
}

/** A message, or what is wrong with the bytes. */
function messageIn(
  { body, length }: { readonly body: Buffer; readonly length: number },
  { method, maxBytes }: UnaryCall,
): Message | string {
  if (length > maxBytes + FRAME_HEAD) return `the message has more than ${maxBytes} bytes`;
  if (body.length < FRAME_HEAD || body[0] !== 0 || body.readUInt32BE(1) !== body.length - FRAME_HEAD) {
    return 'the body is not one message of gRPC';
  }
  try {
    return fromBinary(method.input, body.subarray(FRAME_HEAD));
  } catch (failure) {
    return `the message cannot be read: ${failure instanceof Error ? failure.message : String(failure)}`;
  }
}

interface UnaryEnd {
  readonly status: number;
  readonly message?: string | undefined;
  readonly bytes?: Uint8Array | undefined;
}

const NOT_IN_MESSAGE = /[^ -$&-~]+/gu;

function end(response: Http2ServerResponse, { status, message, bytes }: UnaryEnd): void {
  const { stream } = response;
  if (stream.destroyed || stream.headersSent) return;
  const trailers = {
    'grpc-status': String(status),
    ...(message === undefined ? {} : { 'grpc-message': message.replace(NOT_IN_MESSAGE, encodeURIComponent) }),
  };
  const headers = { ':status': 200, 'content-type': 'application/grpc+proto' };
  if (bytes === undefined) {
    stream.respond({ ...headers, ...trailers }, { endStream: true });
    return;
  }
  response.addTrailers({ 'grpc-status': '0' });
  stream.respond(headers, { waitForTrailers: true });
  const frame = Buffer.allocUnsafe(FRAME_HEAD + bytes.length);
  frame.writeUInt8(0, 0);
  frame.writeUInt32BE(bytes.length, 1);
  frame.set(bytes, FRAME_HEAD);
  stream.end(frame);
}
