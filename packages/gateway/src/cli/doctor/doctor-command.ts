import { CONFIG_FILE_VARIABLE } from '../../config/environment.ts';
import { loadConfig, missingBackend, type LoadedConfig } from '../../config/load-config.ts';
import { formatProblem, SettingError, sortProblems, whyUnreadable } from '../../config/problem.ts';
import { fileProblems } from '../../runtime/named-files.ts';
import { EXIT, type ExitCode, type Host, paintFor } from '../host.ts';
import { examineCertificates, examineMachine } from './examine-machine.ts';
import { examineNeighbours, examineRunningGateway } from './examine-neighbours.ts';
import { examineRedis } from './examine-redis.ts';
import { bad, good, reasonOf, warning, type DoctorFinding, type Examined } from './finding.ts';

export interface DoctorOptions {
  readonly config?: string | undefined;
  readonly admin?: string | undefined;
  readonly keys?: string | undefined;
  readonly json?: boolean | undefined;
}

const DEFAULT_KEYS = 100_000;

/** Looks at everything that a gateway with this configuration depends on. Exits with 1 if something is bad. */
export async function doctor(host: Host, options: DoctorOptions): Promise<ExitCode> {
  const expectedKeys = Number(options.keys ?? DEFAULT_KEYS);
  if (!Number.isSafeInteger(expectedKeys) || expectedKeys < 1) {
    host.writeError(
      `--keys is ${JSON.stringify(options.keys)}; expected a whole number from 1, such as 100000.\n`,
    );
    return EXIT.usage;
  }
  const report = new DoctorReport(host, options.json === true);
  const loaded = examineConfig(host, options, report);
  // A file that cannot be used does not say where it is, but the gateway may well run with an older one.
  const running = await examineRunningGateway(host, { ...options, config: loaded && options.config });
  report.add(running.findings);
  if (loaded !== undefined) {
    const { config } = loaded;
    const examined: Examined = { config, readFile: host.readFile, expectedKeys, now: () => new Date() };
    report.add(await examination('machine', () => examineMachine(examined, running.runs)));
    report.add(await examination('certificate', () => examineCertificates(examined)));
    report.add(await examination('redis', () => examineRedis(examined)));
    report.add(await examination('backend', () => examineNeighbours(examined)));
  }
  return report.end();
}

/** What goes wrong in one examination is a finding too: the others still help. */
async function examination(
  subject: string,
  examine: () => readonly DoctorFinding[] | Promise<readonly DoctorFinding[]>,
): Promise<readonly DoctorFinding[]> {
  try {
    return await examine();
  } catch (failure) {
    const fix =
      failure instanceof SettingError ? 'Correct the setting.' : 'This may be a bug of spillgate doctor.';
    return [bad(subject, `cannot be examined (${reasonOf(failure)})`, fix)];
  }
}

type UsableConfig = Extract<LoadedConfig, { readonly ok: true }>;

/** Undefined if it cannot be used: then nobody knows what else to look at. */
function examineConfig(host: Host, options: DoctorOptions, report: DoctorReport): UsableConfig | undefined {
  const { env, readFile } = host;
  const variable = env[CONFIG_FILE_VARIABLE] ?? '';
  const path = options.config ?? (variable === '' ? undefined : variable);
  const subject = `configuration${path === undefined ? '' : ` ${path}`}`;
  let loaded: LoadedConfig;
  try {
    loaded = loadConfig({
      file: path === undefined ? undefined : { path, text: readFile(path) },
      env,
      readFile,
    });
  } catch (failure) {
    report.add([bad(subject, whyUnreadable(failure), 'Name the file: spillgate doctor FILE.')]);
    return undefined;
  }
  const files = loaded.ok ? fileProblems(loaded, { readFile }).map(({ problem }) => problem) : [];
  const problems = sortProblems([...loaded.problems, ...files, ...missingBackend(loaded, path)]);
  report.add(
    problems.map((problem) => {
      const { suggestion, severity } = problem;
      const found = formatProblem({ ...problem, suggestion: undefined }).replace(/\.$/, '');
      const fix = suggestion ?? 'See docs/gateway-configuration.md.';
      return severity === 'error' ? bad(subject, found, fix) : warning(subject, found, fix);
    }),
  );
  if (problems.length === 0)
    report.add([good(subject, path === undefined ? 'none is named: defaults' : 'is valid')]);
  return loaded.ok ? loaded : undefined;
}

/** Prints each finding when it is there: some take a while. */
class DoctorReport {
  private readonly host: Host;
  private readonly json: boolean;
  private readonly findings: DoctorFinding[] = [];

  constructor(host: Host, json: boolean) {
    this.host = host;
    this.json = json;
  }

  add(findings: readonly DoctorFinding[]): void {
    this.findings.push(...findings);
    if (this.json) return;
    const paint = paintFor(this.host.env, this.host.outputIsTerminal);
    const marks = {
      good: paint('green', 'good   '),
      warning: paint('yellow', 'warning'),
      bad: paint('red', 'bad    '),
    };
    for (const { subject, verdict, found, fix } of findings) {
      this.host.write(`${marks[verdict]} ${paint('bold', subject)}: ${found}\n`);
      if (fix !== undefined) this.host.write(`        ${fix}\n`);
    }
  }

  end(): ExitCode {
    const count = (wanted: DoctorFinding['verdict']): number =>
      this.findings.filter(({ verdict }) => verdict === wanted).length;
    const ok = count('bad') === 0;
    const { findings, host } = this;
    if (this.json) host.write(`${JSON.stringify({ ok, findings }, undefined, 2)}\n`);
    else host.write(`\n${count('good')} good, ${warnings(count('warning'))}, ${count('bad')} bad\n`);
    return ok ? EXIT.ok : EXIT.problems;
  }
}

function warnings(count: number): string {
  return count === 1 ? '1 warning' : `${count} warnings`;
}
