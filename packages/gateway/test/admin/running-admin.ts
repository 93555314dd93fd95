// An admin server on a real socket, in front of a gateway that only exists as far as operators see it.
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { createLimiter, type Limiter, type Policy } from 'spillgate';
import type { GatewayControl, ReloadRecord, ReloadResult } from '../../src/admin/control.ts';
import { startAdmin, type AdminServer } from '../../src/admin/server.ts';
import type { Config } from '../../src/config/config.ts';
import { configuredFleetStore } from '../../src/fleet/settings-store.ts';
import { FleetMember } from '../../src/fleet/fleet-member.ts';
import { describeInstance, InstanceSettings } from '../../src/runtime/instance-settings.ts';
import type { Log } from '../../src/telemetry/log.ts';
import { defaultPolicy } from '../../src/config/schema/rate-limit.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { keyNames } from '../../src/config/schema/key-names.ts';
import { toPolicy } from '../../src/config/schema/policy.ts';
import type { RecentDecision } from '../../src/rules/explain/decision-history.ts';
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts';

export const CONFIG = `
admin:
  address: "127.0.0.1:0"
rate_limit:
  average: 10
  policies:
    api: { average: 100, burst: 20, period: 1m, overrides: [{ key: configured, average: 500, burst: 500 }] }
    queue: { algorithm: leakyBucket, average: 10, max_delay: 2s, failure_policy: failClosed }
    daily: { algorithm: fixedWindow, quota: 1000, window: 1d, offset: 0ms }
`;

export interface LogLine {
  readonly level: string;
  readonly fields: object;
  readonly message: string;
}

export interface Running {
  readonly admin: AdminServer;
  readonly settings: InstanceSettings;
  readonly fleet: FleetMember;
  readonly limiter: Limiter;
  readonly lines: readonly LogLine[];
  readonly metrics: Metrics;
  readonly state: State;
  readonly fetch: (path: string, options?: Options) => Promise<Answer>;
  readonly policy: (name: string) => Policy;
  readonly override: (policy: string, key: string, numbers: object) => Promise<Answer>;
  readonly stop: () => Promise<void>;
}

export interface State {
  phase: 'starting' | 'ready' | 'draining';
  reload: () => Promise<ReloadResult>;
  check: GatewayControl['checkConfig'];
  last: ReloadRecord | undefined;
  policies: ReturnType<GatewayControl['policies']>;
  closed: boolean | undefined;
  recent: readonly RecentDecision[];
}

export interface Options {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly body?: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  readonly json: unknown;
}

export function configOf(yaml: string): {
  config: Config;
  originOf: ReturnType<GatewayControl['live']>['originOf'];
} {
  const loaded = loadConfig({ file: { path: 'gateway.yaml', text: yaml } });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  return loaded;
}

export function policiesOf({ rate_limit }: Config): ReturnType<GatewayControl['policies']> {
  const policies = new Map(
    Object.entries(rate_limit.policies).map(([name, policy]) => [name, toPolicy(name, policy)] as const),
  );
  const usual = defaultPolicy(rate_limit);
  return usual === undefined ? policies : new Map([...policies, ['default', toPolicy('default', usual)]]);
}

export async function runAdmin(yaml: string = CONFIG): Promise<Running> {
  const { config, originOf } = configOf(yaml);
  const limiter = createLimiter();
  const lines: LogLine[] = [];
  const note = (level: string) => (fields: object, message: string) => lines.push({ level, fields, message });
  const log = { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') };
  const metrics = createMetrics({ version: '1.2.3', processMetrics: false });
  const state: State = {
    phase: 'ready',
    reload: () => Promise.resolve({ outcome: 'unchanged', generation: 1, problems: [] }),
    check: () => Promise.resolve({ problems: [], differences: { total: 0, items: [] } }),
    last: undefined,
    policies: policiesOf(config),
    closed: undefined,
    recent: [],
  };
  const control: GatewayControl = {
    startedAt: new Date(Date.now() - 5000),
    phase: () => state.phase,
    live: () => ({ config, originOf, generation: 1, loadedAt: new Date() }),
    lastReload: () => state.last,
    reloads: () => (state.last === undefined ? [] : [state.last]),
    checkConfig: (text) => state.check(text),
    reload: () => state.reload(),
    limiter: () => limiter,
    storeProblem: async () => Promise.resolve(undefined),
    policies: () => state.policies,
    apiKeys: () => keyNames(config.identity.api_keys?.keys ?? []),
    stories: {
      recent: () => state.recent,
      explainKept: () => undefined,
      explainMadeUp: () => Promise.reject(new Error('no rules here')),
    },
    backends: () => [{ origin: 'http://10.0.0.1:3000', healthy: false, inFlight: 2, lastError: 'refused' }],
    maintenance: () => ({ enabled: state.closed ?? false, configured: false, switchedTo: state.closed }),
    switchMaintenance: (enabled) => (state.closed = enabled),
  };
  metrics.observe({ ...control, limitsService: () => undefined });
  metrics.collect(limiter);
  const { settings, fleet } = await ownFleet(control, log);
  limiter.on('decision', ({ decision }) => settings.activity.note(decision));
  const admin = await startAdmin({
    control,
    metrics,
    fleet,
    config: () => config.admin,
    log,
    version: '1.2.3',
  });
  const fetch: Running['fetch'] = (path, options) => ask(admin.address.port, path, options);
  return {
    admin,
    settings,
    fleet,
    limiter,
    lines,
    metrics,
    state,
    fetch,
    policy: (name) => {
      const found = state.policies.get(name);
      if (found === undefined) throw new Error(`no policy ${name}`);
      return found;
    },
    override: (policy, key, numbers) =>
      fetch(`/v1/keys/${policy}/${key}/override`, {
        method: 'PUT',
        headers: JSON_HEADERS,
        body: JSON.stringify(numbers),
      }),
    stop: async () => {
      await admin.close();
      await fleet.leave();
    },
  };
}

/** An instance that meets nobody. */
async function ownFleet(control: GatewayControl, log: Log): Promise<Pick<Running, 'settings' | 'fleet'>> {
  const settings = new InstanceSettings(control, log);
  const fleet = new FleetMember({
    applied: settings.applied,
    log,
    describe: async () =>
      describeInstance(control, '1.2.3', createMetrics({ version: '1.2.3' }).traffic.summary()),
    activities: async () => Promise.resolve([settings.processActivity()]),
    changed: () => undefined,
  });
  await fleet.join(configuredFleetStore(control.live().config));
  return { settings, fleet };
}

/** By hand, because `fetch` forbids some of the headers and changes paths. */
export function ask(port: number, path: string, options: Options = {}): Promise<Answer> {
  const { method = 'GET', headers = {}, body } = options;
  return new Promise((resolve, reject) => {
    const request = httpRequest({ port, host: '127.0.0.1', path, method, headers, agent: false });
    request.on('error', reject);
    request.on('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        const isJson = /json/.test(response.headers['content-type'] ?? '') && text !== '';
        const json: unknown = isJson ? JSON.parse(text) : undefined;
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json });
      });
    });
    request.end(body);
  });
}

export const JSON_HEADERS = { 'content-type': 'application/json' };

/** What the server answers to these bytes until it ends the connection. */
export function raw(port: number, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    let text = '';
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      socket.end();
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(text));
  });
}
