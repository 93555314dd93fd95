/** What Envoy asks: one domain, and descriptors that are all to be met. */
export interface RlsRequest {
  readonly domain: string;
  readonly descriptors: readonly RlsDescriptor[];
  /** 0: left out. */
  readonly hitsAddend: number;
}

export interface RlsDescriptor {
  readonly entries: readonly DescriptorEntry[];
  /** A limit that the request brings along, by the numbers of the protocol. */
  readonly limit: { readonly requestsPerUnit: number; readonly unit: number } | undefined;
  /** Undefined: that of the request. 0 looks and spends nothing. */
  readonly hitsAddend: bigint | undefined;
  /** Hits are given back. */
  readonly isNegativeHits: boolean;
}

export interface DescriptorEntry {
  readonly key: string;
  readonly value: string;
}

export type RlsErrorCode = 'invalid' | 'unavailable' | 'unimplemented';

/** A question without an answer. Nothing was counted. */
export class RlsError extends Error {
  readonly code: RlsErrorCode;

  constructor(code: RlsErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}
