// Services that read files of envoyproxy/ratelimit.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { askRls, type RlsCall } from './rls-client.ts';
import { startTestService } from './running-service.ts';

/** A folder with one file of descriptors. */
export function directoryWith(yaml: string, name = 'shop.yaml'): string {
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-rls-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, name), yaml);
  return folder;
}

interface Asking {
  readonly ask: (call: RlsCall) => Promise<unknown>;
  /** `OK`, or which descriptors are over. */
  readonly codes: (...descriptors: RlsCall['descriptors']) => Promise<string>;
}

export async function withFile(yaml: string, rls = ''): Promise<Asking> {
  const service = await startTestService(
    `service: { rls: { directory: ${JSON.stringify(directoryWith(yaml))}${rls === '' ? '' : `, ${rls}`} } }`,
  );
  const ask = async (call: RlsCall): Promise<unknown> => askRls(service.port, call);
  return { ask, codes: async (...descriptors) => codesOf(await ask({ descriptors })) };
}

interface AnswerJson {
  readonly overallCode: string;
  readonly statuses: readonly { readonly code: string }[];
}

export function codesOf(answer: unknown): string {
  if (typeof answer === 'string') return answer;
  const { overallCode, statuses } = answer as AnswerJson;
  return `${overallCode} [${statuses.map(({ code }) => code).join(' ')}]`;
}

export const OK = 'OK [OK]';
export const OVER = 'OVER_LIMIT [OVER_LIMIT]';
