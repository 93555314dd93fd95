import type { ClientAddress } from 'spillgate/http';
import type { RequestHead } from '../exchange.ts';
import { HeaderList } from '../request/header-list.ts';
import type { ReadRequest } from '../request/read-request.ts';
import type { ReadingRules } from '../request/reading-rules.ts';

export interface FollowedRequest {
  readonly head: RequestHead;
  readonly request: ReadRequest;
  readonly rules: ReadingRules;
}

/** More commas are not looked at: a hop has one, and of hops 32 are followed. */
const MAX_CUTS = 64;
/** Closed quotes, and escapes only in between: so a list is split alike from the left and from the right. */
const CLOSED = /^(?:[^"\\]|"(?:[^"\\]|\\.)*")*$/;
/** RFC 7239 §6.2: for what cannot be said. */
const UNKNOWN = 'for=unknown';

/**
 * What a `Forwarded` that was followed says about the hops before ours. It was read from the right, up to the client; what stands left of that a
 * client may have made up. A quote in there that stays open would swallow our own element for whoever reads from the left, so that the rest is cut off.
 */
export function forwardedHops({ head, request, rules }: FollowedRequest): readonly string[] {
  const lines = request.headers.lines('forwarded');
  if (lines.every((line) => CLOSED.test(line))) return lines;
  const { client } = request.facts;
  const all = lines.join(', ');
  let comma = all.length;
  for (let cut = 0; cut < MAX_CUTS && comma > 0; cut += 1) {
    comma = all.lastIndexOf(',', comma - 1);
    const rest = all.slice(comma + 1).trim();
    if (comma > 0 && CLOSED.test(rest) && saysTheSame(rules.clientOf(head.peer, chainOf(rest)), client)) {
      return [UNKNOWN, rest];
    }
  }
  return [UNKNOWN, `for=${forwardedNode(client.address ?? 'unknown')}`];
}

function chainOf(rest: string): HeaderList {
  return new HeaderList(['forwarded', `${UNKNOWN}, ${rest}`]);
}

function saysTheSame(one: ClientAddress, other: ClientAddress): boolean {
  return one.from === other.from && one.address === other.address;
}

/** RFC 7239 §6: IPv6 in brackets and quotes. */
export function forwardedNode(address: string): string {
  return address.includes(':') ? `"[${address}]"` : address;
}
