import { askAdmin, CommandFailure, fieldOf, type AdminOptions } from './admin-client.ts';
import { EXIT, type ExitCode, type Host } from './host.ts';
import { paintFor, type Paint } from './paint.ts';

export interface HealthOptions extends AdminOptions {
  readonly deep?: boolean | undefined;
  readonly json?: boolean | undefined;
}

/** Exits with 0 if the gateway takes requests, else with 1: what a health check of a container wants. */
export async function health(host: Host, options: HealthOptions): Promise<ExitCode> {
  const { deep = false, json = false } = options;
  try {
    const path = deep ? '/readyz?deep=1' : '/readyz';
    const { status, body } = await askAdmin(host, options, { method: 'GET', path });
    const ready = status === 200;
    const paint = paintFor(host.env, host.outputIsTerminal);
    host.write(json ? `${JSON.stringify(body, undefined, 2)}\n` : describe(body, ready, paint));
    return ready ? EXIT.ok : EXIT.problems;
  } catch (failure) {
    if (!(failure instanceof CommandFailure)) throw failure;
    host.writeError(`${failure.message}\n`);
    return EXIT.problems;
  }
}

function describe(body: unknown, ready: boolean, paint: Paint): string {
  const detail: unknown = fieldOf(body, 'detail') ?? fieldOf(body, 'status');
  const lines = [
    ready ? paint('green', 'ready') : paint('red', `not ready: ${String(detail)}`),
    ...listOf(fieldOf(fieldOf(body, 'store'), 'nodes')).map((node) =>
      part(
        paint,
        fieldOf(node, 'status') === 'up',
        `store ${String(fieldOf(node, 'name'))}`,
        fieldOf(node, 'detail'),
      ),
    ),
    ...listOf(fieldOf(body, 'backends')).map((backend) =>
      part(
        paint,
        fieldOf(backend, 'healthy') === true,
        `backend ${String(fieldOf(backend, 'origin'))}`,
        fieldOf(backend, 'lastError'),
      ),
    ),
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
