import type { ClientAddress } from 'spillgate/http';
import type { BodyFacts } from '../cost/body-fields.ts';
import type { ClientCertificate, Identity } from '../identity/identity.ts';

/** The headers of a request as they arrived. */
export interface HeaderFields {
  /** Names and values by turns, as they were sent; HTTP/2's pseudo-headers are not among them. */
  readonly raw: readonly string[];
  /** All lines of a header in order of arrival, by its lower-case name; empty when there is none. */
  lines(name: string): readonly string[];
}

/** What rules see of a request: nothing of sockets and streams, and the same for every version of HTTP. */
export interface RequestFacts {
  /** Unique; in logs, in traces, and in the header that `server.request_id_header` names. */
  readonly id: string;
  readonly method: string;
  readonly scheme: 'http' | 'https';
  /** The host that was asked for, in lower case and without port. */
  readonly host: string;
  /** The path in its one normal form: rules match it, and the backend gets exactly it. */
  readonly path: string;
  /**
   * The path as a server sees it to which `%2F` is a slash, where there is one. Only what holds for both may be done.
   */
  readonly otherPath?: string | undefined;
  /** `?a=b`, or empty. */
  readonly query: string;
  readonly headers: HeaderFields;
  readonly client: ClientAddress;
  /** What its body says, where its rule wants to know. */
  readonly body?: BodyFacts | undefined;
  /** It passes what deny lists let pass, and spends nothing: a preflight. */
  readonly uncounted?: boolean | undefined;
  /** What the client showed in the TLS handshake, where a rule or a backend wants to know. */
  readonly certificate?: ClientCertificate | undefined;
  /** Who is asking, as far as it was proven; left out where nobody can prove it. */
  readonly identity?: Identity | undefined;
}
