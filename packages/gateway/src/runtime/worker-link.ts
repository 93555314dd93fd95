import cluster from 'node:cluster';
import type { Worker } from 'node:cluster';
import type { Gateway } from './gateway.ts';
import type { SettingsMessage } from './instance-settings.ts';
import { answerStory, type StoryQuestion } from './request-explainer.ts';

/** Whether this process is one of several that share the port. */
export function isWorker(): boolean {
  return cluster.isWorker;
}

interface WorkerLink {
  /** Resolves when the primary asks for the end, or is gone. */
  readonly stopped: Promise<string>;
}

/** What a worker starts with. */
export interface WorkerStart {
  /** The file that the primary process uses; what it says with later reloads takes its place. */
  readonly fileText: () => string | undefined;
  readonly settings: SettingsMessage;
}

/** Asks the primary process for all that this one needs to start. */
export async function startOfPrimary(): Promise<WorkerStart> {
  let inUse: FileInUse = {};
  return new Promise((resolve) => {
    cluster.worker?.on('message', (message: unknown) => {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- our own program at the other end
      const said = isOurs(message) ? (message as ToWorker) : undefined;
      const names = said?.spillgate === 'ask' && (said.question === 'prepare' || said.question === 'reload');
      if (said?.spillgate === 'config' || names) inUse = said;
      if (said?.spillgate === 'config') resolve({ fileText: () => inUse.fileText, settings: said.settings });
    });
    tell({ spillgate: 'starting' });
  });
}

/** Obeys the primary process, and tells it that this one is ready. */
export function linkToPrimary(gateway: Gateway): WorkerLink {
  const stopped = new Promise<string>((resolve) => {
    const answers: Readonly<Record<WorkerQuestion, (detail: unknown) => unknown>> = {
      prepare: async () => gateway.prepareReload(),
      reload: async () => {
        await gateway.reload();
        return gateway.address();
      },
      abort: async () => gateway.abortReload(),
      metrics: async () => gateway.metricsJson(),
      summary: () => gateway.summary(),
      activity: () => gateway.processActivity(),
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- our own program at the other end
      stories: (detail) => answerStory(gateway.stories, detail as StoryQuestion),
      closePort: async () => gateway.closePort(),
      drain: () => resolve('drain'),
    };
    cluster.worker?.on('message', (message: unknown) => {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- our own program at the other end
      const said = isOurs(message) ? (message as ToWorker) : undefined;
      if (said?.spillgate === 'settings') gateway.useSettings(said.settings);
      if (said?.spillgate === 'maintenance') gateway.switchMaintenance(said.enabled);
      if (said?.spillgate === 'ask') void answer(said.id, () => answers[said.question](said.detail));
    });
    cluster.worker?.once('disconnect', () => resolve('the primary process is gone'));
  });
  const { address, port, family } = gateway.address();
  tell({ spillgate: 'ready', address, port, family });
  return { stopped };
}

/** This worker cannot start: the primary says why, and gives up. */
export async function reportFailure(message: string): Promise<void> {
  await new Promise<void>((resolve) => {
    tell({ spillgate: 'failed', message }, resolve);
  });
}

async function answer(id: number, give: () => unknown): Promise<void> {
  tell({ spillgate: 'answer', id, value: await give() });
}

function tell(message: ToPrimary, sent: () => void = () => undefined): void {
  if (cluster.worker?.isConnected() === true) cluster.worker.send(message, () => sent());
  else sent();
}

// What they tell each other.

/** Asked by the primary, answered by every worker. */
export type WorkerQuestion =
  /** Is this configuration of use? All that can go wrong is done; the answer is what does. */
  | 'prepare'
  /** Take it into use, prepared or not; the answer is where clients connect then. */
  | 'reload'
  /** What was prepared is not wanted. */
  | 'abort'
  | 'metrics'
  | 'summary'
  /** Which keys is it busy with? */
  | 'activity'
  /** About the decisions that it made. */
  | 'stories'
  /** Close the port, and keep serving open connections. */
  | 'closePort'
  | 'drain';

/** The file of the configuration that is or will be in use. What stands on the disk may have been refused. */
export interface FileInUse {
  readonly fileText?: string | undefined;
}

export type ToWorker =
  | { readonly spillgate: 'maintenance'; readonly enabled?: boolean | undefined }
  /** All that it needs to start. */
  | ({ readonly spillgate: 'config'; readonly settings: SettingsMessage } & FileInUse)
  | ({
      readonly spillgate: 'ask';
      readonly id: number;
      readonly question: WorkerQuestion;
      readonly detail?: unknown;
    } & FileInUse)
  | { readonly spillgate: 'settings'; readonly settings: SettingsMessage };

export type ToPrimary =
  /** It starts, and needs the configuration. */
  | { readonly spillgate: 'starting' }
  | { readonly spillgate: 'ready'; readonly address: string; readonly port: number; readonly family: string }
  /** It cannot start, and no other attempt would help. */
  | { readonly spillgate: 'failed'; readonly message: string }
  | { readonly spillgate: 'answer'; readonly id: number; readonly value: unknown };

/** Other parts of a program may use the same channel: what is not ours is nobody's. */
export function isOurs(message: unknown): message is { readonly spillgate: string } {
  return typeof message === 'object' && message !== null && 'spillgate' in message;
}

interface Handle {
  close(): void;
}

/**
 * Connections that Node has handed to a worker and the worker has not taken yet. Node forgets them if the worker dies
 * in between: the client would stay connected to nobody. They are closed, as those that the worker had taken are.
 */
export function closeUntakenOnExit(worker: Worker): void {
  const untaken = new Map<number, Handle>();
  const { process: child } = worker;
  child.send = new Proxy(child.send.bind(child), {
    apply(send, _, sent: readonly unknown[]): unknown {
      const [message, handle] = sent;
      if (isHandedOver(message) && isHandle(handle)) untaken.set(message.seq, handle);
      return Reflect.apply(send, child, sent);
    },
  });
  child.on('internalMessage', ({ ack }: { readonly ack?: number }) => {
    if (ack !== undefined) untaken.delete(ack);
  });
  worker.once('exit', () => {
    for (const handle of untaken.values()) handle.close();
  });
}

/** Node's own message that comes with a connection; the worker's answer names its number. */
function isHandedOver(message: unknown): message is { readonly seq: number } {
  return typeof message === 'object' && message !== null && 'act' in message && message.act === 'newconn';
}

function isHandle(value: unknown): value is Handle {
  return typeof value === 'object' && value !== null && 'close' in value;
}
