/** What is read of a refusal that nobody will look at, so that its connection can be used again. */
const MAX_DISCARDED_BYTES = 65_536;

/**
 * Reads a response to its end, so that the connection is free for the next request. A long body is cut off, and so is one
 * that has not come when the returned function is called.
 */
export function discard(response: Response): () => void {
  const reader = response.body?.getReader();
  if (reader === undefined) return () => undefined;
  const stop = (): void => void reader.cancel().catch(ignore);
  readAway(reader, stop).catch(ignore);
  return stop;
}

async function readAway(reader: ReadableStreamDefaultReader<Uint8Array>, stop: () => void): Promise<void> {
  let bytes = 0;
  while (bytes <= MAX_DISCARDED_BYTES) {
    const { done, value } = await reader.read();
    if (done) return;
    bytes += value.byteLength;
  }
  stop();
}

/** A refusal that breaks off is still a refusal. */
function ignore(): void {}
