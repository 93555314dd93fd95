export { Departures } from './departures.ts';
export { simulate, type SimulateOptions, type SimulationResult } from './simulate.ts';
export {
  simulatedFleet,
  type SimulatedFleetOptions,
  type SimulatedFleet,
  type StoreOutage,
} from './simulated-fleet.ts';
