import type { Endpoint } from './endpoint.ts';
import { GATEWAY_ENDPOINTS } from './gateway-endpoints.ts';
import { KEY_ENDPOINTS } from './key-endpoints.ts';
import { pageEndpoints } from './page-endpoints.ts';
import { PROBE_ENDPOINTS } from './probe-endpoints.ts';

/** The one table of endpoints. Below `/ui` there is room for a dashboard. */
export const ENDPOINTS: readonly Endpoint[] = [
  ...PROBE_ENDPOINTS,
  ...GATEWAY_ENDPOINTS,
  ...KEY_ENDPOINTS,
  ...pageEndpoints(() => ENDPOINTS),
];
