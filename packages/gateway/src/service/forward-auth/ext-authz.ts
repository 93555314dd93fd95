// Envoy's `ext_authz` over gRPC: a request meets the rules of the gateway.
import type { Message } from '@bufbuild/protobuf';
import type { ServiceSnapshot } from '../snapshot.ts';
import {
  decideAsked,
  requireTrusted,
  type AskedDecision,
  type AskedRequest,
} from './forward-auth-endpoints.ts';

/** `CheckRequest`, as its descriptor reads it. */
interface CheckRequestMessage {
  readonly attributes?: {
    readonly source?: { readonly address?: { readonly socketAddress?: { readonly address: string } } };
    readonly request?: { readonly http?: HttpAttributes };
  };
}

interface HttpAttributes {
  readonly method: string;
  readonly path: string;
  readonly host: string;
  readonly scheme: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly headerMap?: { readonly headers: readonly RawHeader[] };
}

interface RawHeader {
  readonly key: string;
  readonly value: string;
  readonly rawValue: Uint8Array;
}

const RPC_OK = 0;
const RPC_PERMISSION_DENIED = 7;
const RPC_RESOURCE_EXHAUSTED = 8;
/** Headers about limits replace those of the service behind Envoy. */
const OVERWRITE = 2;

/** What Envoy gets: the fields of a `CheckResponse`. */
export interface EnvoyAnswer {
  readonly allowed: boolean;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Throws a `ServiceProblem` for a proxy that is not trusted, or a request that is none. */
export async function checkAuthorization(
  message: Message,
  peer: string | undefined,
  snapshot: ServiceSnapshot,
): Promise<EnvoyAnswer> {
  requireTrusted(peer, snapshot);
  const decision = await decideAsked(askedIn(message, peer), snapshot);
  return { allowed: decision.allowed, fields: responseFields(decision, snapshot) };
}

/** The lines of a header of the request that Envoy asks about. */
export function askedLines(message: Message): (name: string) => readonly string[] {
  const { rawHeaders } = askedIn(message, undefined);
  return (name) => rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === name);
}

function responseFields(decision: AskedDecision, snapshot: ServiceSnapshot): EnvoyAnswer['fields'] {
  const { allowed, status, headers, contentType, body } = decision;
  const told = headers.map(([key, value]) => headerOption(key, value));
  if (allowed) {
    return {
      status: { code: RPC_OK },
      httpResponse: {
        case: 'okResponse',
        value: { responseHeadersToAdd: told, ...toUpstream(decision, snapshot) },
      },
    };
  }
  const typed = contentType === undefined ? told : [...told, headerOption('content-type', contentType)];
  return {
    status: { code: status === 429 ? RPC_RESOURCE_EXHAUSTED : RPC_PERMISSION_DENIED },
    httpResponse: { case: 'deniedResponse', value: { status: { code: status }, headers: typed, body } },
  };
}

/** Who is asking, and nothing that a client says about that itself. */
function toUpstream({ identityHeaders }: AskedDecision, { config }: ServiceSnapshot): object {
  const told = new Set(identityHeaders.map(([name]) => name));
  return {
    headers: identityHeaders.map(([name, value]) => headerOption(name, value)),
    headersToRemove: Object.values(config.identity.headers).filter((name) => !told.has(name)),
  };
}

function headerOption(key: string, value: string): object {
  return { header: { key, value }, appendAction: OVERWRITE };
}

function askedIn(message: Message, peer: string | undefined): AskedRequest {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- read by the descriptor of CheckRequest
  const { attributes } = message as unknown as CheckRequestMessage;
  const { method = '', path = '', host = '', scheme = '', ...sent } = attributes?.request?.http ?? {};
  return {
    method,
    scheme,
    host,
    target: path,
    rawHeaders: headersOf(sent),
    // Who is connected to Envoy; behind a proxy that is trusted, X-Forwarded-For says more.
    peer: attributes?.source?.address?.socketAddress?.address ?? peer,
  };
}

function headersOf({
  headers = {},
  headerMap,
}: Partial<Pick<HttpAttributes, 'headers' | 'headerMap'>>): readonly string[] {
  if (headerMap === undefined || headerMap.headers.length === 0) return Object.entries(headers).flat();
  return headerMap.headers.flatMap(({ key, value, rawValue }) => [
    key,
    value === '' ? Buffer.from(rawValue).toString('latin1') : value,
  ]);
}
