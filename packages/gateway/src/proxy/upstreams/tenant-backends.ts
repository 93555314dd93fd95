import type { Config } from '../../config/config.ts';
import type { Log } from '../../telemetry/logger.ts';
import type { ClientTls, ResolveAll } from '../../http-client/index.ts';
import { PooledUpstream, type PoolSettings, type Upstream } from './pooled-upstream.ts';
import { UrlPolicy, type AllowedUrl, type Refused, type UrlPolicyOptions } from './url-policy.ts';

export interface TenantBackendsOptions extends UrlPolicyOptions {
  readonly urlPolicy: Config['backend']['url_policy'];
  readonly pool: PoolSettings;
  readonly dialTimeoutMs: number;
  readonly tls: ClientTls;
  readonly log: Log;
  /** Default: 1,000. */
  readonly maxBackends?: number;
  /** Left out: the system's resolver. */
  readonly resolve?: ResolveAll | undefined;
}

export type TenantBackend = { readonly refused: undefined; readonly upstream: Upstream } | Refused;

const MAX_BACKENDS = 1000;

/** The backends that the external service names: each with connections of its own, and at most so many at a time. */
export class TenantBackends {
  private readonly options: TenantBackendsOptions;
  private readonly policy: UrlPolicy;
  private readonly max: number;
  /** The one that was not used for the longest time comes first. */
  private readonly byOrigin = new Map<string, PooledUpstream>();
  private readonly allowed = new Map<string, AllowedUrl>();
  /** Put out of the map and not yet done with their last requests. */
  private readonly leaving = new Set<PooledUpstream>();

  constructor(options: TenantBackendsOptions) {
    this.options = options;
    this.policy = new UrlPolicy(options.urlPolicy, options);
    this.max = options.maxBackends ?? MAX_BACKENDS;
  }

  get size(): number {
    return this.byOrigin.size;
  }

  /** The server that a URL names, or why it is not used. The address is checked when it is dialled. */
  for(url: string): TenantBackend {
    const allowed = this.check(url);
    if (allowed.refused !== undefined) return allowed;
    const upstream = this.byOrigin.get(allowed.origin) ?? this.open(allowed);
    this.byOrigin.delete(allowed.origin);
    this.byOrigin.set(allowed.origin, upstream);
    this.evict();
    return { refused: undefined, upstream };
  }

  /** Parsing costs more than all the rest; the same few URLs come again and again. */
  private check(url: string): AllowedUrl | Refused {
    const known = this.allowed.get(url);
    if (known !== undefined) return known;
    const checked = this.policy.check(url);
    if (checked.refused !== undefined) return checked;
    if (this.allowed.size >= this.max) this.allowed.clear();
    this.allowed.set(url, checked);
    return checked;
  }

  async close(options: { readonly force?: boolean } = {}): Promise<void> {
    const all = [...this.byOrigin.values(), ...this.leaving];
    this.byOrigin.clear();
    await Promise.all(all.map(async (upstream) => upstream.close(options)));
  }

  private open({ origin, host, port }: AllowedUrl): PooledUpstream {
    const { pool, dialTimeoutMs, resolve } = this.options;
    // `server_name` is for the configured servers; this one has to show a certificate for the host that the URL names.
    const { servername: _configured, ...tls } = this.options.tls;
    return new PooledUpstream(origin, {
      settings: pool,
      tls,
      dialTimeoutMs,
      resolve,
      refusesAddress: (address) => this.policy.refusesAddress({ host, port }, address),
    });
  }

  private evict(): void {
    if (this.byOrigin.size <= this.max) return;
    const oldest = this.byOrigin.entries().next().value;
    if (oldest === undefined) return;
    const [origin, upstream] = oldest;
    this.byOrigin.delete(origin);
    this.leaving.add(upstream);
    this.options.log.debug({ upstream: origin }, 'connections to a backend are closed to make room');
    void upstream.close().finally(() => this.leaving.delete(upstream));
  }
}
