export {
  createLimitsService,
  type LimitsRequest,
  type LimitsService,
  type LimitsServiceOptions,
  type ListeningService,
  type ListenOptions,
} from './limits-service.ts';
export { definePlans, UNLIMITED, type Limits, type PolicyLimits } from './limits.ts';
