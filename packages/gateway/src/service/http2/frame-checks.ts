// What a frame has to be, whatever it is about.
import { ConnectionFault, ERROR, MAX_PAYLOAD_BYTES, MAX_WINDOW, SETTING } from './frames.ts';

export function requireConnection(stream: number): void {
  if (stream !== 0) throw new ConnectionFault(ERROR.protocol, 'a frame of the connection names a stream');
}

/** We use no table, and never send more in a frame than everybody takes: of what is allowed, only windows matter. */
export function requireSetting(id: number, value: number): void {
  if (id === SETTING.enablePush && value > 1)
    throw new ConnectionFault(ERROR.protocol, `ENABLE_PUSH is ${value}`);
  if (id === SETTING.maxFrameSize && (value < MAX_PAYLOAD_BYTES || value >= 2 ** 24))
    throw new ConnectionFault(ERROR.protocol, `MAX_FRAME_SIZE is ${value}`);
  if (id === SETTING.initialWindowSize && value > MAX_WINDOW)
    throw new ConnectionFault(ERROR.flowControl, `INITIAL_WINDOW_SIZE is ${value}`);
}

export function requireLength(fits: boolean): void {
  if (!fits) throw new ConnectionFault(ERROR.frameSize, 'a frame has a length that it cannot have');
}

/** What stands between the length of the padding and the padding (RFC 9113 §6.1). */
export function unpadded(payload: Buffer): Buffer {
  const padding = payload[0];
  if (padding === undefined) throw new ConnectionFault(ERROR.frameSize, 'a padded frame is empty');
  if (padding >= payload.length)
    throw new ConnectionFault(ERROR.protocol, 'there is more padding than payload');
  return payload.subarray(1, payload.length - padding);
}
