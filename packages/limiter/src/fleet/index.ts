export { joinFleet, type JoinFleetOptions, type FleetWarning, type JoinedFleet } from './join-fleet.ts';
export type { KeySetting } from './key-setting.ts';
