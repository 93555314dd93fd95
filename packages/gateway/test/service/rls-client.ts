// Asks over gRPC with another implementation than our own.
import {
  compressionAlgorithms,
  credentials,
  Metadata,
  type ChannelCredentials,
  type ServiceError,
} from '@grpc/grpc-js';
import { Client } from '@grpc/grpc-js';
import { create, fromBinary, toBinary, toJson, type DescMessage, type Message } from '@bufbuild/protobuf';
import { onTestFinished } from 'vitest';
import { messageNamed } from '../../src/service/wire/proto-registry.ts';

export interface GrpcCall {
  readonly port: number;
  /** `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit` */
  readonly method: string;
  readonly input: DescMessage;
  readonly output: DescMessage;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly channel?: ChannelCredentials;
  /** The message is sent in gzip. */
  readonly compressed?: boolean;
}

const GZIP = { 'grpc.default_compression_algorithm': compressionAlgorithms.gzip };

/** The answer as JSON; a failure is the text `CODE: details`. */
export async function callGrpc({
  port,
  method,
  input,
  output,
  fields,
  metadata = {},
  channel,
  compressed = false,
}: GrpcCall): Promise<unknown> {
  const options = compressed ? GZIP : {};
  const client = new Client(`127.0.0.1:${port}`, channel ?? credentials.createInsecure(), options);
  onTestFinished(() => client.close());
  const sent = new Metadata();
  for (const [name, value] of Object.entries(metadata)) sent.set(name, value);
  return new Promise((resolve) => {
    client.makeUnaryRequest(
      `/${method}`,
      (message: Message) => Buffer.from(toBinary(input, message)),
      (bytes: Buffer) => fromBinary(output, bytes),
      create(input, fields),
      sent,
      (error: ServiceError | null, message?: Message) => {
        if (error !== null) resolve(`${error.code}: ${decodeURIComponent(error.details)}`);
        else if (message !== undefined) resolve(toJson(output, message));
      },
    );
  });
}

export type Descriptor = Readonly<Record<string, unknown>> & {
  readonly entries: readonly { readonly key: string; readonly value: string }[];
};

/** `user=ann,path=/x` as a descriptor. */
export function descriptor(text: string, more: Readonly<Record<string, unknown>> = {}): Descriptor {
  const entries =
    text === ''
      ? []
      : text.split(',').map((entry) => {
          const at = entry.indexOf('=');
          return { key: entry.slice(0, at), value: entry.slice(at + 1) };
        });
  return { ...more, entries };
}

const requestMessage = messageNamed('envoy.service.ratelimit.v3.RateLimitRequest');
const responseMessage = messageNamed('envoy.service.ratelimit.v3.RateLimitResponse');

export interface RlsCall {
  readonly domain?: string;
  readonly descriptors: readonly Descriptor[];
  readonly hitsAddend?: number;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly channel?: ChannelCredentials;
  readonly compressed?: boolean;
}

export async function askRls(
  port: number,
  { metadata, channel, compressed = false, domain = 'shop', ...fields }: RlsCall,
): Promise<unknown> {
  return callGrpc({
    port,
    method: 'envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
    input: requestMessage,
    output: responseMessage,
    fields: { domain, ...fields },
    compressed,
    ...(metadata === undefined ? {} : { metadata }),
    ...(channel === undefined ? {} : { channel }),
  });
}
