// What became of each start, kept in a file: a run that is ended in the middle is continued, not repeated.
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** How many per line of the table. */
export const STARTS = Number(process.env['SPILLGATE_STARTS'] ?? 100);
/** Starts of an earlier run count: of the same build, with the same settings, or the table mixes two things. */
const CONTINUES = process.env['SPILLGATE_CONTINUE'] === '1';
/** A line says how far it is after so many starts. */
const PROGRESS_EVERY = 25;

const FOLDER = fileURLToPath(new URL('../../build/cold-starts/', import.meta.url));

export interface StartRecord {
  readonly admitted: number;
  /** Why the failure policy answered, where it did. */
  readonly failures: readonly string[];
}

interface TableLine {
  /** Names the line: topology, failure policy, how many. */
  readonly cells: readonly (string | number)[];
  readonly admittedAtMost: number;
  readonly start: (at: number) => Promise<StartRecord>;
}

export class StartRecords {
  private readonly file: string;
  private readonly earlier = new Map<string, StartRecord[]>();

  /** Prints the head of the table. */
  constructor(name: string, head: readonly string[]) {
    this.file = join(FOLDER, `${name}.jsonl`);
    mkdirSync(dirname(this.file), { recursive: true });
    if (!CONTINUES) rmSync(this.file, { force: true });
    this.readEarlier();
    print([...head, 'starts', 'most admitted', 'above the policy', 'why']);
  }

  /** Makes the starts that are missing and prints the line; answers how many admitted too much. */
  async complete({ cells, admittedAtMost, start }: TableLine): Promise<number> {
    const name = cells.join(' | ');
    const records = [...(this.earlier.get(name) ?? [])].slice(0, STARTS);
    while (records.length < STARTS) {
      const { admitted, failures } = await start(records.length);
      const record: StartRecord = { admitted, failures };
      records.push(record);
      appendFileSync(this.file, `${JSON.stringify([name, record])}\n`);
      if (records.length % PROGRESS_EVERY === 0 && records.length < STARTS) {
        print([...cells, `${records.length} of ${STARTS} so far`]);
      }
    }
    const above = records.filter(({ admitted }) => admitted > admittedAtMost).length;
    const most = Math.max(...records.map(({ admitted }) => admitted));
    const why = [...new Set(records.flatMap(({ failures }) => failures))].join(' ');
    print([...cells, STARTS, most, above, why]);
    return above;
  }

  private readEarlier(): void {
    if (!existsSync(this.file)) return;
    // The last line may have been cut off.
    const whole = readFileSync(this.file, 'utf8').split('\n').slice(0, -1);
    for (const line of whole) {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what `complete` wrote
      const [name, record] = JSON.parse(line) as [string, StartRecord];
      const known = this.earlier.get(name) ?? [];
      this.earlier.set(name, [...known, record]);
    }
  }
}

/** At once: a run of hours may be lost before its end. */
function print(cells: readonly (string | number)[]): void {
  process.stdout.write(`${cells.join(' | ')}\n`);
}
