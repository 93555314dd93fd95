import type { ProvidedName } from '../envoy/provided.ts';

export interface Places {
  readonly folder: string;
  readonly upstreamPort: number;
  readonly redisPort: number;
  /** Of the service that this proxy asks, if it asks one. */
  readonly helperPort: number;
  /** Of what the suite had to install; empty if it is not there. */
  readonly programs: Readonly<Record<ProvidedName, string>>;
}

/** What may be missing on a machine. */
export type Needed = 'nginx' | 'haproxy' | ProvidedName;

/** A proxy and how it is started. */
export interface Candidate {
  readonly id: string;
  readonly name: string;
  readonly role: 'ours' | 'native' | 'peer' | 'reference';
  readonly limits: 'none' | 'memory' | 'Redis';
  readonly needs?: readonly Needed[];
  /** Every request but the first ones is over the limit. */
  readonly denies?: boolean;
  /** The file that configures it, where it has one. */
  readonly file?: (port: number, places: Places) => string;
  readonly command: (port: number, file: string, places: Places) => readonly string[];
  /** A service that it asks for every request. Its processor time counts, as that of Redis does. */
  readonly helper?: (port: number, places: Places) => Promise<readonly string[]>;
}
