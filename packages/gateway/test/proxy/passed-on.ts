import type { ClientAddress } from 'spillgate/http';
import { configOf } from './rig.ts';
import { requestHeaders } from '../../src/proxy/forward/headers.ts';
import { readRequest, readingRules } from '../../src/proxy/request/read-request.ts';

export interface Asked {
  readonly config?: object | undefined;
  readonly peer: string;
  /** Names and values by turns. */
  readonly rawHeaders: readonly string[];
}

export interface PassedOn {
  /** Whom the gateway decided on. */
  readonly client: ClientAddress;
  /** What the backend gets: the values of each header, by lower-case name. */
  readonly headers: Readonly<Record<string, readonly string[]>>;
}

/** What becomes of a request without a body, up to the moment in which it would be sent. */
export function passedOn({ config, peer, rawHeaders }: Asked): PassedOn {
  const rules = readingRules(configOf(config));
  const head = {
    protocol: 'HTTP/1.1',
    method: 'GET',
    scheme: 'http',
    target: '/',
    authority: undefined,
    rawHeaders,
    peer,
    bodyless: true,
  } as const;
  const request = readRequest(head, 'the-id', rules);
  if (typeof request === 'string') throw new Error(request);
  const route = {
    backend: rules.config.backend,
    headers: { replaced: new Set<string>(), added: [], host: undefined, prefix: undefined },
  };
  const flat = requestHeaders({ head, request, route, rules, pseudonym: 'spillgate-test', trace: undefined });
  const headers: Record<string, string[]> = {};
  for (let at = 0; at < flat.length; at += 2) {
    (headers[(flat[at] ?? '').toLowerCase()] ??= []).push(flat[at + 1] ?? '');
  }
  return { client: request.facts.client, headers };
}
