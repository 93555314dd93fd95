import {
  askAdmin,
  CommandFailure,
  complaintOf,
  fieldOf,
  notAGateway,
  type AdminAnswer,
  type AdminClientOptions,
} from './admin-client.ts';
import { EXIT, type ExitCode, type Host } from './host.ts';
import { paintFor, type Paint } from './output.ts';

export interface HealthOptions extends AdminClientOptions {
  readonly deep?: boolean | undefined;
  readonly json?: boolean | undefined;
}

/** Exits with 0 if the gateway takes requests, else with 1: what a health check of a container wants. */
export async function health(host: Host, options: HealthOptions): Promise<ExitCode> {
  const { deep = false, json = false } = options;
  try {
    const path = deep ? '/readyz?deep=1' : '/readyz';
    const answer = await askAdmin(host, options, { method: 'GET', path });
    const { body } = answer;
    const ready = isReady(answer);
    const paint = paintFor(host.env, host.outputIsTerminal);
    host.write(json ? `${JSON.stringify(body, undefined, 2)}\n` : describe(body, ready, paint));
    return ready ? EXIT.ok : EXIT.problems;
  } catch (failure) {
    if (!(failure instanceof CommandFailure)) throw failure;
    host.writeError(`${failure.message}\n`);
    return EXIT.problems;
  }
}

/** As in admin/schemas.ts, which would load a library for schemas: this runs every few seconds. */
const STATUSES: readonly unknown[] = ['ok', 'starting', 'draining', 'store-unavailable'];

function isReady(answer: AdminAnswer): boolean {
  const { origin, status, body } = answer;
  const known = STATUSES.includes(fieldOf(body, 'status'));
  if (status === 200 && known) return true;
  if (status === 200) throw notAGateway(origin);
  if (status === 503 && known) return false;
  const isProblem = typeof fieldOf(body, 'code') === 'string';
  throw new CommandFailure(
    isProblem ? `${origin} does not say whether it is ready: ${complaintOf(answer)}` : complaintOf(answer),
  );
}

function describe(body: unknown, ready: boolean, paint: Paint): string {
  const lines = [
    ready ? paint('green', 'ready') : paint('red', `not ready: ${String(fieldOf(body, 'status'))}`),
    ...listOf(fieldOf(fieldOf(body, 'store'), 'nodes')).map((node) =>
      part(
        paint,
        fieldOf(node, 'status') === 'up',
        `store ${String(fieldOf(node, 'name'))}`,
        fieldOf(node, 'detail'),
      ),
    ),
    ...listOf(fieldOf(body, 'backends')).map((backend) => {
      const healthy = fieldOf(backend, 'healthy') === true;
      const error = fieldOf(backend, 'lastError');
      // Without health checks a backend counts as up; the last connection to it may have failed all the same.
      const detail = healthy && typeof error === 'string' ? `last connection failed: ${error}` : error;
      return part(paint, healthy, `backend ${String(fieldOf(backend, 'origin'))}`, detail);
    }),
  ];
  return `${lines.join('\n')}\n`;
}

function part(paint: Paint, good: boolean, name: string, detail: unknown): string {
  const mark = good ? paint('green', 'up  ') : paint('yellow', 'down');
  return `  ${mark} ${name}${typeof detail === 'string' && detail !== '' ? paint('dim', `: ${detail}`) : ''}`;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
