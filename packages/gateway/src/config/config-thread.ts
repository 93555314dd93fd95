// The thread of load-in-thread.ts.
import { parentPort, workerData } from 'node:worker_threads';
import { checkConfig } from './load-config.ts';

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what load-in-thread.ts gives it
const [file, environment] = workerData as Parameters<typeof checkConfig>;
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
parentPort?.postMessage(checkConfig(file, environment));
