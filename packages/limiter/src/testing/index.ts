export {
  describeStore,
  type CreateStore,
  type StoreCapabilities,
  type TestRunner,
} from './describe-store.ts';
export {
  awkwardPolicies,
  runRandomProgram,
  type RandomProgram,
  type RandomProgramResult,
} from './random-program.ts';
export { seededRandom, type Random } from './random.ts';
export { runPenaltyProgram, type PenaltyProgramResult } from './penalty-program.ts';
export { runSlotProgram, type SlotProgramResult } from './slot-program.ts';
export { virtualClock, type VirtualClock } from './virtual-clock.ts';
