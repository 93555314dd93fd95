import { Dispatcher, errors } from 'undici';
import { handlerOf, requestOf } from './handler-style.ts';
import type { ResponseHandler, Silence, UpstreamRequest } from './upstream-request.ts';

/** Connections to one server. Requests come by `send`; by `dispatch` they come from undici, which then adds `request()` and the like. */
export abstract class RequestPool extends Dispatcher {
  private readonly silence: Silence;

  constructor(silence: Silence) {
    super();
    this.silence = silence;
  }

  abstract send(request: UpstreamRequest, handler: ResponseHandler): void;

  /** Takes no new requests; resolves when those under way are done. May be called twice. */
  protected abstract finish(): Promise<void>;

  /** Fails all requests that are under way. */
  protected abstract fail(error: Error): void;

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.send(requestOf(options, this.silence), handlerOf(handler));
    return true;
  }

  override close(): Promise<void>;
  override close(callback: () => void): void;
  override close(callback?: () => void): Promise<void> | void {
    return told(this.finish(), callback);
  }

  override destroy(): Promise<void>;
  override destroy(error: Error | null): Promise<void>;
  override destroy(callback: () => void): void;
  override destroy(error: Error | null, callback: () => void): void;
  override destroy(first?: Error | null | (() => void), second?: () => void): Promise<void> | void {
    const finished = this.finish();
    this.fail(first instanceof Error ? first : new errors.ClientDestroyedError());
    return told(finished, typeof first === 'function' ? first : second);
  }
}

function told(done: Promise<void>, callback: (() => void) | undefined): Promise<void> | void {
  if (callback === undefined) return done;
  // oxlint-disable-next-line promise/no-callback-in-promise -- undici's dispatchers can be closed with a callback
  void done.then(() => callback());
}
