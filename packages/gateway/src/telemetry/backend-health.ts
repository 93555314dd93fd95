/** What is known of one server behind the gateway. */
export interface BackendHealth {
  readonly origin: string;
  readonly healthy: boolean;
  readonly inFlight: number;
  readonly lastError: string | undefined;
}
