export { joinFleet, type FleetOptions, type FleetWarning, type JoinedFleet } from './join-fleet.ts';
export type { KeySetting } from './key-setting.ts';
