// A set-up in which nothing is wrong, to plant faults into.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  createCertificates,
  startRedis,
  type Certificates,
  type RedisServer,
} from '../../../../test/redis/servers.ts';
import type { DoctorFinding } from '../../src/cli/doctor/finding.ts';
import { spillgate, type Terminal } from './terminal.ts';

const LIMITS = 'Max open files            1048576              1048576              files\n';

export type Sections = Readonly<
  Partial<Record<'server' | 'backend' | 'redis' | 'rate_limit', string | undefined>>
>;

export interface Examination {
  readonly exitCode: number;
  readonly findings: readonly DoctorFinding[];
  readonly bad: readonly DoctorFinding[];
  readonly warnings: readonly DoctorFinding[];
}

/** Each that is not good, on one line. */
export function faults(findings: readonly DoctorFinding[]): readonly string[] {
  return findings
    .filter(({ verdict }) => verdict !== 'good')
    .map(({ subject, found }) => `${subject}: ${found}`);
}

/** What `--json` says. */
export function findingsIn(stdout: string): readonly DoctorFinding[] {
  return (JSON.parse(stdout) as { findings: readonly DoctorFinding[] }).findings;
}

export class HealthySetup {
  readonly redis: RedisServer;
  readonly certificates: Certificates;
  /** What the backend answers. */
  healthStatus = 200;
  private readonly backend: Server;

  private constructor(redis: RedisServer, certificates: Certificates) {
    this.redis = redis;
    this.certificates = certificates;
    this.backend = createServer((_, response) => response.writeHead(this.healthStatus).end());
  }

  static async start(): Promise<HealthySetup> {
    const setup = new HealthySetup(
      await startRedis({ config: ['appendonly yes'] }),
      await createCertificates(),
    );
    await new Promise<void>((resolve) => setup.backend.listen(0, '127.0.0.1', resolve));
    return setup;
  }

  get backendPort(): number {
    return (this.backend.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    this.backend.closeAllConnections();
    this.backend.close();
    await this.redis.stop();
  }

  /** With these sections in place of its own. */
  async examine(sections: Sections, more: Terminal['files'] = {}): Promise<Examination> {
    const { stdout, exitCode } = await spillgate(
      // Nobody listens there: the gateway is not running.
      ['doctor', 'gateway.yaml', '--json', '--admin', '127.0.0.1:9', '--keys', '1000000'],
      { files: { ...this.files(sections), ...more } },
    );
    const findings = findingsIn(stdout);
    const of = (wanted: string): readonly DoctorFinding[] =>
      findings.filter(({ verdict }) => verdict === wanted);
    return { exitCode, findings, bad: of('bad'), warnings: of('warning') };
  }

  files(sections: Sections): Readonly<Record<string, string>> {
    const { server, client } = this.certificates;
    return {
      'gateway.yaml': this.yaml(sections),
      'server.crt': server.cert,
      'server.key': server.key,
      'client.key': client.key,
      '/proc/self/limits': LIMITS,
    };
  }

  yaml(sections: Sections): string {
    const all = {
      server: 'address: "127.0.0.1:0"',
      admin: 'address: "127.0.0.1:0"',
      backend: `url: "http://127.0.0.1:${this.backendPort}"`,
      redis: `endpoints: ["127.0.0.1:${this.redis.port}"]`,
      rate_limit: 'average: 10, deadline: 5s',
      ...sections,
    };
    // A busy machine keeps these times.
    if (all.redis !== undefined) all.redis += ', read_timeout: 5s';
    return Object.entries(all)
      .flatMap(([name, text]) => (text === undefined ? [] : [`${name}: { ${text} }\n`]))
      .join('');
  }
}
