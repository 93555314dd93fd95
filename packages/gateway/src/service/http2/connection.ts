// A connection of HTTP/2 to the decision service, by the frame. Node.js makes a dozen objects of every stream, and
// behind Envoy that is most of what a decision costs: see the README here.
import type { Duplex } from 'node:stream';
import { TokenMeter } from 'spillgate/internal';
import { CompressionError, HeaderDecoder, MAX_LIST_BYTES, type HeaderBlock } from './hpack.ts';
import {
  FramedSocket,
  type FrameListener,
  ConnectionFault,
  ERROR,
  FIRST_WINDOW,
  FLAG,
  FRAME,
  frameOf,
  goawayFrame,
  MAX_STREAM_ID,
  MAX_WINDOW,
  numberFrame,
  SETTING,
  settingsFrame,
  requireConnection,
  requireLength,
  requireSetting,
  unpadded,
} from './frames.ts';
import { areTrailers } from './call-head.ts';
import { ServiceStream, type StreamCarrier } from './stream.ts';

export interface FrameConnectionOptions {
  /** Serves a call, whose `listener` it sets. */
  readonly open: (stream: ServiceStream) => void;
  /** Hears of a mistake of ours; the connection is over then. */
  readonly failed: (failure: unknown) => void;
}

const MAX_STREAMS = 1000;
const MAX_CONTINUATIONS = 8;
/** The peer is told in steps of this size that it may send more. */
const CREDIT_STEP = 32_768;
/** Calls that are broken off, in a burst and per second: as many as nghttp2 takes. */
const RESETS = { burst: 1000, perSecond: 33 };
/** Of bodies that are not complete, over all calls. */
const MAX_UNFINISHED_BYTES = 2 ** 26;
/** Frames that make work and carry nothing. */
const OVERHEAD = { burst: 10_000, perSecond: 1000 };
const SMALL_DATA_BYTES = 64;

const SETTINGS = settingsFrame([
  [SETTING.maxConcurrentStreams, MAX_STREAMS],
  [SETTING.maxHeaderListSize, MAX_LIST_BYTES],
]);
const SETTINGS_ACK = frameOf(FRAME.settings, FLAG.ack, 0);

/** Headers that are not complete yet. */
interface OpenBlock {
  readonly stream: number;
  readonly endsStream: boolean;
  readonly pieces: Buffer[];
  bytes: number;
}

export class FrameConnection implements StreamCarrier, FrameListener {
  sendWindow = FIRST_WINDOW;
  private readonly options: FrameConnectionOptions;
  private readonly frames: FramedSocket;
  private readonly decoder = new HeaderDecoder();
  private readonly streams = new Map<number, ServiceStream>();
  private readonly resets = new TokenMeter(RESETS.burst, RESETS.perSecond);
  private readonly overhead = new TokenMeter(OVERHEAD.burst, OVERHEAD.perSecond);
  private settled = false;
  private lastStream = 0;
  private firstSendWindow = FIRST_WINDOW;
  private receiveWindow = FIRST_WINDOW;
  private used = 0;
  private unfinished = 0;
  private block: OpenBlock | undefined;
  private closing = false;
  /** The last calls that were known when it was looked at. */
  private seenIdle = -1;
  private seenSlow = 0;

  constructor(socket: Duplex, options: FrameConnectionOptions) {
    this.options = options;
    this.frames = new FramedSocket(socket, this);
    this.send(SETTINGS);
  }

  /** Takes no more calls, and ends behind those in flight. */
  close(): void {
    if (this.closing) return;
    this.closing = true;
    this.send(goawayFrame(this.lastStream, ERROR.none));
    this.endIfIdle();
  }

  /** Whether there was no call since this was asked before. */
  wasIdle(): boolean {
    const wasIdle = this.streams.size === 0 && this.lastStream === this.seenIdle;
    this.seenIdle = this.lastStream;
    return wasIdle;
  }

  /** Breaks off the calls that had not arrived as a whole when this was called before, and still have not. */
  breakSlowCalls(): void {
    for (const [id, call] of this.streams) {
      if (id <= this.seenSlow && !call.remoteEnded) call.reset(ERROR.cancel);
    }
    this.seenSlow = this.lastStream;
  }

  send(bytes: Buffer): void {
    this.frames.send(bytes);
  }

  credit(bytes: number): void {
    this.used += bytes;
    if (this.used < CREDIT_STEP) return;
    this.send(numberFrame(FRAME.windowUpdate, 0, this.used));
    this.receiveWindow += this.used;
    this.used = 0;
  }

  hold(bytes: number): void {
    this.unfinished += bytes;
    if (bytes > 0 && this.unfinished > MAX_UNFINISHED_BYTES)
      throw new ConnectionFault(ERROR.enhanceYourCalm, 'too many bodies are not complete');
  }

  forget({ id }: ServiceStream): void {
    this.streams.delete(id);
    if (this.closing) this.endIfIdle();
  }

  breakCall(call: ServiceStream, code: number): void {
    this.spendReset();
    call.reset(code);
  }

  fault(failure: unknown): void {
    const isFault = failure instanceof ConnectionFault;
    if (!isFault && !(failure instanceof CompressionError)) this.options.failed(failure);
    const code = isFault
      ? failure.code
      : failure instanceof CompressionError
        ? ERROR.compression
        : ERROR.internal;
    this.closing = true;
    this.send(goawayFrame(this.lastStream, code));
    this.breakOff(code);
    this.frames.end();
  }

  closed(): void {
    this.closing = true;
    this.breakOff(ERROR.cancel);
  }

  frame(type: number, flags: number, stream: number, payload: Buffer): void {
    if (!this.settled && (type !== FRAME.settings || (flags & FLAG.ack) !== 0))
      throw new ConnectionFault(ERROR.protocol, 'the first frame is not SETTINGS');
    if (this.block !== undefined && (type !== FRAME.continuation || stream !== this.block.stream))
      throw new ConnectionFault(ERROR.protocol, 'a frame stands within a block of headers');
    switch (type) {
      case FRAME.data:
        this.takeData(flags, stream, payload);
        break;
      case FRAME.headers:
        this.takeHeaders(flags, stream, payload);
        break;
      case FRAME.continuation:
        this.takeContinuation(flags, payload);
        break;
      case FRAME.windowUpdate:
        this.takeWindowUpdate(stream, payload);
        break;
      case FRAME.reset:
        this.takeReset(stream, payload);
        break;
      case FRAME.settings:
        this.takeSettings(flags, stream, payload);
        break;
      case FRAME.ping:
        this.takePing(flags, stream, payload);
        break;
      case FRAME.priority:
        this.takePriority(stream, payload);
        break;
      case FRAME.goaway:
        requireConnection(stream);
        requireLength(payload.length >= 8);
        break;
      case FRAME.pushPromise:
        throw new ConnectionFault(ERROR.protocol, 'a client cannot push');
      default:
        this.spend();
    }
  }

  private takeData(flags: number, stream: number, payload: Buffer): void {
    const isLast = (flags & FLAG.endStream) !== 0;
    this.receiveWindow -= payload.length;
    if (this.receiveWindow < 0)
      throw new ConnectionFault(ERROR.flowControl, 'more DATA than the window takes');
    if (!isLast && payload.length < SMALL_DATA_BYTES) this.spend();
    const body = (flags & FLAG.padded) === 0 ? payload : unpadded(payload);
    const call = this.called(stream);
    if (call === undefined) {
      // It is over here, and the peer could not know.
      this.spend();
      this.credit(payload.length);
    } else if (call.remoteEnded) {
      this.credit(payload.length);
      this.breakCall(call, ERROR.streamClosed);
    } else {
      call.take(body, payload.length - body.length);
      if (isLast) call.endRemotely();
    }
  }

  private takeHeaders(flags: number, stream: number, payload: Buffer): void {
    if (stream % 2 === 0) throw new ConnectionFault(ERROR.protocol, `${stream} is no stream of a client`);
    let piece = (flags & FLAG.padded) === 0 ? payload : unpadded(payload);
    if ((flags & FLAG.priority) !== 0) {
      requireLength(piece.length >= 5);
      if ((piece.readUInt32BE(0) & MAX_STREAM_ID) === stream)
        throw new ConnectionFault(ERROR.protocol, 'a stream depends on itself');
      piece = piece.subarray(5);
    }
    const endsStream = (flags & FLAG.endStream) !== 0;
    if ((flags & FLAG.endHeaders) === 0)
      this.block = { stream, endsStream, pieces: [piece], bytes: piece.length };
    else this.takeBlock(stream, endsStream, piece);
  }

  private takeContinuation(flags: number, payload: Buffer): void {
    const { block } = this;
    if (block === undefined) throw new ConnectionFault(ERROR.protocol, 'CONTINUATION of nothing');
    block.pieces.push(payload);
    block.bytes += payload.length;
    if (block.pieces.length > MAX_CONTINUATIONS + 1 || block.bytes > MAX_LIST_BYTES)
      throw new ConnectionFault(ERROR.enhanceYourCalm, 'a block of headers is too long');
    if ((flags & FLAG.endHeaders) === 0) return;
    this.block = undefined;
    this.takeBlock(block.stream, block.endsStream, Buffer.concat(block.pieces));
  }

  private takeBlock(stream: number, endsStream: boolean, bytes: Buffer): void {
    // Also of calls that nobody serves: the table of the peer and ours have to stay the same.
    const list = this.decoder.decode(bytes);
    if (stream > this.lastStream) {
      if (this.closing) return;
      this.lastStream = stream;
      this.openCall(stream, endsStream, list);
      return;
    }
    const call = this.streams.get(stream);
    if (call === undefined) {
      // Trailers of a call that is over here, or a call that comes behind a later one: that one would wait for ever.
      this.spend();
      this.send(numberFrame(FRAME.reset, stream, ERROR.streamClosed));
    } else if (call.remoteEnded) this.breakCall(call, ERROR.streamClosed);
    else if (!endsStream || !areTrailers(list.fields)) this.breakCall(call, ERROR.protocol);
    else call.endRemotely();
  }

  private openCall(id: number, endsStream: boolean, list: HeaderBlock): void {
    const { request: head } = list;
    if (list.tooLarge || head === undefined || this.streams.size >= MAX_STREAMS) {
      const code = list.tooLarge
        ? ERROR.enhanceYourCalm
        : head === undefined
          ? ERROR.protocol
          : ERROR.refusedStream;
      this.spendReset();
      this.send(numberFrame(FRAME.reset, id, code));
      return;
    }
    const call = new ServiceStream(this, {
      id,
      head,
      sendWindow: this.firstSendWindow,
      receiveWindow: FIRST_WINDOW,
    });
    this.streams.set(id, call);
    this.options.open(call);
    if (endsStream) call.endRemotely();
  }

  private takeWindowUpdate(stream: number, payload: Buffer): void {
    requireLength(payload.length === 4);
    const bytes = payload.readUInt32BE(0) & MAX_WINDOW;
    if (stream === 0) {
      if (bytes === 0) throw new ConnectionFault(ERROR.protocol, 'a window grows by nothing');
      const wasClosed = this.sendWindow <= 0;
      this.sendWindow += bytes;
      if (this.sendWindow > MAX_WINDOW) throw new ConnectionFault(ERROR.flowControl, 'a window is too large');
      if (wasClosed) this.pumpAll();
      return;
    }
    const call = this.called(stream);
    if (call === undefined) return;
    if (bytes === 0) this.breakCall(call, ERROR.protocol);
    else if (!call.widen(bytes)) this.breakCall(call, ERROR.flowControl);
  }

  private pumpAll(): void {
    for (const call of this.streams.values()) {
      if (this.sendWindow <= 0) return;
      call.pump();
    }
  }

  private takeReset(stream: number, payload: Buffer): void {
    requireLength(payload.length === 4);
    const call = this.called(stream);
    if (call === undefined) {
      this.spend();
      return;
    }
    this.spendReset();
    call.close(payload.readUInt32BE(0));
  }

  private takeSettings(flags: number, stream: number, payload: Buffer): void {
    requireConnection(stream);
    if ((flags & FLAG.ack) !== 0) {
      requireLength(payload.length === 0);
      return;
    }
    requireLength(payload.length % 6 === 0);
    if (this.settled) this.spend();
    this.settled = true;
    let { firstSendWindow } = this;
    for (let at = 0; at < payload.length; at += 6) {
      const [id, value] = [payload.readUInt16BE(at), payload.readUInt32BE(at + 2)];
      requireSetting(id, value);
      if (id === SETTING.initialWindowSize) firstSendWindow = value;
    }
    this.resizeWindows(firstSendWindow);
    this.send(SETTINGS_ACK);
  }

  /** Once for a frame, however often it says so: all calls are looked at. */
  private resizeWindows(firstSendWindow: number): void {
    const more = firstSendWindow - this.firstSendWindow;
    this.firstSendWindow = firstSendWindow;
    if (more === 0) return;
    for (const call of this.streams.values()) {
      if (!call.widen(more)) throw new ConnectionFault(ERROR.flowControl, 'a window is too large');
    }
  }

  private takePing(flags: number, stream: number, payload: Buffer): void {
    requireConnection(stream);
    requireLength(payload.length === 8);
    if ((flags & FLAG.ack) === 0) this.send(frameOf(FRAME.ping, FLAG.ack, 0, payload));
  }

  private takePriority(stream: number, payload: Buffer): void {
    if (stream === 0) throw new ConnectionFault(ERROR.protocol, 'PRIORITY of the connection');
    requireLength(payload.length === 5);
    this.spend();
  }

  /** The call of a stream; undefined if it is over. */
  private called(stream: number): ServiceStream | undefined {
    if (stream === 0 || stream % 2 === 0 || (stream > this.lastStream && !this.closing))
      throw new ConnectionFault(ERROR.protocol, `there is no stream ${stream}`);
    return this.streams.get(stream);
  }

  private spend(): void {
    if (!this.overhead.take(performance.now()))
      throw new ConnectionFault(ERROR.enhanceYourCalm, 'too many frames that carry nothing');
  }

  private spendReset(): void {
    if (!this.resets.take(performance.now()))
      throw new ConnectionFault(ERROR.enhanceYourCalm, 'too many calls are broken off');
  }

  private breakOff(code: number): void {
    for (const call of this.streams.values()) call.close(code);
  }

  private endIfIdle(): void {
    if (this.streams.size === 0) this.frames.end();
  }
}
