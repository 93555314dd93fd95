import { ALGORITHMS } from '../../src/algorithms/index.ts';
import { forwardUs, toleratedStepUs, type Definition } from './model.ts';
import { anySpanUs, DAY, MINUTE, SECOND } from './policies.ts';
import { subjectOf, type AlgorithmModel, type Subject } from './subject.ts';

/** Everything that was ever taken, as a set: a slot is over when its time is. */
interface TakenSlots {
  readonly slots: readonly { readonly takenAtUs: number; readonly units: number }[];
}

/**
 * At most `limit` units are held at any moment, and each for `holdUs`. Here nobody renews or releases anything: that is
 * in `test/unit/slots/model.test.ts`. What an admission saw end has ended for good.
 */
function define(limit: number, holdUs: number): Definition<TakenSlots> {
  const held = (taken: TakenSlots | undefined, nowUs: number): TakenSlots['slots'] =>
    (taken?.slots ?? []).filter(({ takenAtUs }) => takenAtUs + holdUs > nowUs);
  const free = (taken: TakenSlots | undefined, nowUs: number): number =>
    limit - held(taken, nowUs).reduce((sum, { units }) => sum + units, 0);
  const latestUs = ({ slots }: TakenSlots): number => Math.max(...slots.map(({ takenAtUs }) => takenAtUs));

  return {
    limit,
    fits: (taken, cost, nowUs) => cost <= free(taken, nowUs),
    available: free,
    delayUs: () => 0,
    admit: (taken, cost, nowUs) => ({
      // Never before an earlier one that is still held, even if the clock stepped back between the two.
      slots: [
        ...held(taken, nowUs),
        { takenAtUs: Math.max(nowUs, ...held(taken, nowUs).map((slot) => slot.takenAtUs)), units: cost },
      ],
    }),
    stepBack(taken, nowUs) {
      if (latestUs(taken) - nowUs <= toleratedStepUs(holdUs)) return undefined;
      return {
        slots: held(taken, nowUs).map(({ takenAtUs, units }) => ({
          takenAtUs: Math.min(takenAtUs, nowUs),
          units,
        })),
      };
    },
    horizonUs: (taken) => latestUs(taken) + holdUs,
    mostBetween: (fromUs, toUs) => BigInt(limit) * BigInt(Math.floor((toUs - fromUs) / holdUs) + 1),
    mostAlong: (readingsUs) => BigInt(limit) * BigInt(Math.floor(forwardUs(readingsUs) / holdUs) + 1),
    toleratedUs: toleratedStepUs(holdUs),
  };
}

export const concurrencyModel: AlgorithmModel = {
  awkward: () =>
    [
      [1, 1],
      [1, SECOND],
      [3, 999_983],
      [10, MINUTE],
      [10_000, 30 * SECOND],
      [7, DAY],
    ].map(([limit = 1, holdUs = 1]) => subject(limit, holdUs)),
  random: (random) => subject(random.magnitude(1, 10_000), anySpanUs(random)),
};

function subject(limit: number, holdUs: number): Subject {
  const compiled = { limit, holdUs, idHigh: 0, idLow: 0 };
  return subjectOf({
    numbers: { limit, holdUs },
    algorithm: ALGORITHMS.concurrency,
    compiled,
    definition: define(limit, holdUs),
    spanUs: holdUs,
  });
}
