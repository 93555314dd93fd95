export { Departures } from './departures.ts';
export { simulate, type SimulateOptions, type SimulationResult } from './simulate.ts';
export {
  simulatedFleet,
  type FleetOptions,
  type SimulatedFleet,
  type StoreOutage,
} from './simulated-fleet.ts';
