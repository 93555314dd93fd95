import { execFile } from 'node:child_process';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { FREE_PORT } from './server-program.ts';

const DEADLINE_MS = 60_000;

/**
 * Loads the programs one after the other in one process, and ends it: a program that throws or warns says so on
 * standard error.
 */
export async function errorsOfAll(programs: readonly string[]): Promise<string> {
  const loaded = programs.map((program) => `await import(${JSON.stringify(pathToFileURL(program).href)});`);
  // Servers that the programs start would keep the process alive.
  const text = [FREE_PORT, ...loaded, "console.log('all ran'); process.exit(0);"].join('\n');
  try {
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      ['--input-type=module', '--eval', text],
      { timeout: DEADLINE_MS },
    );
    return stdout.includes('all ran') ? stderr : `not all ran: ${stdout}${stderr}`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
