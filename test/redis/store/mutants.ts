import type { Mutant } from './mutated-client.ts';

/** One-token mistakes in every twin and in the script around them. */
export const MUTANTS: readonly Mutant[] = [
  ...inBuckets(),
  ...inStepsBack(),
  ...inFixedWindows(),
  ...inSlidingWindowLogs(),
  ...inSlidingWindowCounters(),
  ...inCalendarQuotas(),
  ...inConcurrency(),
  ...inTheScript(),
  ...inArguments(),
];

function inBuckets(): readonly Mutant[] {
  return [
    mutant('a cost of the whole burst never fits', 'cost > 0 and cost <= numbers[1]', '<=', '<'),
    mutant('a wait of exactly the lead is too long', 'if waitUs <= leadUs', '<=', '<'),
    mutant('the lead is rounded up', 'leadUs = floor((capacityUnits - costUnits', 'floor', 'ceil'),
    mutant('the lead ignores the fraction', '(capacityUnits - costUnits - fraction)', ' - fraction', ''),
    mutant('the debt is rounded up', 'owedUs = floor(', 'floor', 'ceil'),
    mutant(
      'the fraction is lost',
      'spentFraction = owedUnits - owedUs * drainUnits',
      'owedUnits',
      '0 * owedUnits',
    ),
    mutant('a bucket ends a microsecond early', 'resetAfterUs = resetAfterUs + 1', ' + 1', ''),
    mutant('a look forgets the fraction', 'drainedUs = waitUs + 1', ' + 1', ''),
    mutant('a state of this microsecond is over', 'if tatUs < nowUs', '<', '<='),
    mutant('a new rate is not noticed', 'drainUnits == numbers[3] and', 'and', 'or'),
    mutant('a converted debt is rounded down', 'rest = ceil(product', 'ceil', 'floor'),
    mutant('an inexact debt is not rounded up', '* tokenUnits) + 2)', ' + 2', ''),
    mutant('a countable debt is uncountable', 'if tatUs - nowUs > countableUs then', '>', '<'),
    mutant('a full slower bucket is not carried', 'debtUnits > capacityUnits and (slower', '>', '>='),
    mutant('an equal rate is slower', 'drainUnits / tokenUnits < oldDrainUnits', '<', '<='),
    mutant('the last exact product is inexact', 'product + oldTokenUnits <= MAX_SAFE', '<=', '<'),
    mutant('an uncountable debt is counted', '(MAX_SAFE - fraction) / oldDrainUnits', '/', '*'),
    mutant('slower is faster', 'drainUnits / tokenUnits < oldDrainUnits', '<', '>'),
    mutant('an old debt clears at once', 'return cost == 0, clearUs + ceil', 'clearUs + ', ''),
    mutant(
      'a debt under other numbers is told without them',
      'not (sameRate and capacityUnits',
      'sameRate and',
      'true or',
    ),
    mutant('a carried state is dropped', "spent,\n    pack('<ddddd', carriedTatUs", 'pack', 'nil and pack'),
  ];
}

function inStepsBack(): readonly Mutant[] {
  return [
    mutant('a step back is never forgiven', 'if tatUs - nowUs - fullUs > max(fullUs', '>', '< -'),
    mutant('a tolerated step is forgiven', 'fullUs > max(fullUs, TOLERATED_STEP_US)', '>', '>='),
    mutant('a short step is forgiven', 'max(fullUs, TOLERATED_STEP_US)', 'TOLERATED_STEP_US', '0'),
    mutant('a step is tolerated for five seconds only', 'max(fullUs, TOLERATED_STEP_US)', 'fullUs', '0'),
    mutant(
      'a lowered burst is a step back',
      'ceil(capacityUnits / drainUnits)',
      'capacityUnits',
      'numbers[4]',
    ),
    mutant(
      'a forgiven debt is no debt',
      'wholeUs = floor(capacityUnits / drainUnits)',
      'capacityUnits',
      '0 * capacityUnits',
    ),
    mutant('a forgiven debt is not kept', 'spent, carried or emptied', ' or emptied', ''),
    mutant('a carried debt is more than it can be', 'max(capacityUnits, debtUnits)', 'max', 'min'),
  ];
}

function inFixedWindows(): readonly Mutant[] {
  return [
    mutant('the offset is forgotten', 'floor((nowUs - offsetUs) / windowUs)', ' - offsetUs', ''),
    mutant('the stored window is over at once', 'storedUs >= currentUs', '>=', '>'),
    mutant('a window is taken along too early', 'storedUs - nowUs > max(windowUs', '>', '>='),
    mutant(
      'a long window is taken along too early',
      'storedUs - nowUs > max(windowUs, TOLERATED_STEP_US)',
      'windowUs',
      '0',
    ),
    mutant('a count is lost in a step back', '      count = stored\n', 'stored', '0'),
    mutant(
      'a count that was taken along is not kept',
      "pack('<dd', currentUs, stored)",
      'pack',
      'nil and pack',
    ),
    mutant('a full window has room', 'fits = cost <= limit - count', '<=', '<'),
  ];
}

function inCalendarQuotas(): readonly Mutant[] {
  return [
    mutant('the next period begins late', 'if nowUs >= endUs then startUs', '>=', '>'),
    mutant('a period that goes on is over', 'if storedUs >= startUs then', '>=', '>'),
    mutant('a period is taken along too late', '(endUs - startUs) / 2', '2', '1'),
    mutant('a used-up period is empty after a step back', '      used = stored\n', 'stored', '0'),
    mutant(
      'a quota that was taken along is not kept',
      "pack('<dd', startUs, stored)",
      'pack',
      'nil and pack',
    ),
    mutant('a full period has room', 'fits = cost <= limit - used', '<=', '<'),
  ];
}

function inConcurrency(): readonly Mutant[] {
  return [
    mutant('units are read from the wrong place', 'SLOT_BYTES + 41', '41', '33'),
    mutant(
      'ended slots count',
      'units = units - slotUnitsAt(slots, slot)',
      ' - slotUnitsAt',
      ' - 0 * slotUnitsAt',
    ),
    mutant('slots of nobody are one', 'numbers[3] == 0 and numbers[4] == 0', '== 0 and', '== 1 and'),
    mutant(
      'half an id is enough',
      "pack('<dd', numbers[3], numbers[4]), first",
      "'<dd', numbers[3], numbers[4]",
      "'<d', numbers[3]",
    ),
    mutant('an id may stand anywhere', '(at - 25) % SLOT_BYTES == 0 then', '== 0', '>= 0'),
    mutant('an ended slot is renewed', 'first * SLOT_BYTES + 25', 'first', '0'),
    mutant('a renewed slot is taken twice', 'own * SLOT_BYTES + 8)', 'own', '(own + 1)'),
    mutant('ended slots stay', 'slots:sub(first * SLOT_BYTES + 9, own', 'first', '0'),
    mutant('a renewal loses units', 'units - slotUnitsAt(slots, own))', ' - slotUnitsAt(slots, own)', ''),
    mutant(
      'a slot stands behind all others',
      'local at = listFirstAfter(slots, SLOT_BYTES, endUs)',
      'endUs',
      'MAX_SAFE',
    ),
    mutant('slots forgive a tolerated step', 'endUs - holdUs - nowUs <= max(holdUs', '<=', '<'),
    mutant('long slots forgive early', 'nowUs <= max(holdUs, TOLERATED_STEP_US)', 'holdUs,', '0,'),
    mutant(
      'a forgiven slot lasts as long as before',
      'math.min(endUs, nowUs + holdUs)',
      'math.min',
      'math.max',
    ),
    mutant('slots of no numbers are slots', 'if not (used >= 0) then', 'not (used >= 0)', 'false'),
    mutant('a full limit has room', 'own or cost <= limit - used', '<=', '<'),
    mutant('who holds a slot needs another', 'local fits = own or cost', 'own or', 'false or'),
    mutant('slots free what is not enough', 'freed < used + cost - limit and slot', '<', '<='),
    mutant('the newest is not told', 'if own ~= newest then', '~=', '=='),
    mutant('too little is told to be freed', 'freed = freed + slotUnitsAt', 'freed + ', ''),
    mutant('a clock that stepped back takes slots in the past', 'takenAtUs = max(nowUs', 'max', 'math.min'),
    mutant('a renewal shortens a slot', 'if ownEndUs > endUs then', '>', '<'),
    mutant(
      'a renewal takes other units',
      '      units = slotUnitsAt(slots, own)\n',
      'slotUnitsAt(slots, own)',
      'cost',
    ),
    mutant('forgiven slots are not kept', 'cost == 0, endsInUs, nil, carried', 'carried', 'nil'),
  ];
}

function inSlidingWindowLogs(): readonly Mutant[] {
  return [
    mutant('a record at the horizon counts, a slot that ends now is held', '+ 9)) > atUs', '>', '>='),
    mutant('a record too many has to leave', 'logTotalAt(log, middle) >= total', '>=', '>'),
    mutant('a stamp is read from the wrong place', 'RECORD_BYTES + 9', '9', '17'),
    mutant('what left the window counts', 'logTotalAt(log, records - 1) - before', ' - before', ''),
    mutant('a clock that stepped back stamps the past', 'stampUs = max(newestUs', 'max', 'min'),
    mutant('a coarse stamp is rounded down', 'max(newestUs, ceil(nowUs / stepUs)', 'ceil', 'floor'),
    mutant('equal moments do not share a record', 'if joins then last', 'joins', 'not joins'),
    mutant('dead records stay', 'log:sub(first * RECORD_BYTES + 1', 'first', '0'),
    mutant('a log forgives a tolerated step', '- nowUs <= max(windowUs, TOLERATED_STEP_US)', '<=', '<'),
    mutant('a long log forgives early', '- nowUs <= max(windowUs, TOLERATED_STEP_US)', 'windowUs', '0'),
    mutant(
      'a forgiven log counts what had left',
      'logTotalAt(log, listFirstAfter(log, RECORD_BYTES, nowUs - windowUs) - 1)',
      'logTotalAt',
      '0 * logTotalAt',
    ),
    mutant('a forgiven log is stamped early', "pack('<ddd', 0, ceil(nowUs / stepUs)", 'ceil', 'floor'),
    mutant('a forgiven log is not kept', 'cost == 0, resetAfterUs, nil, carried', 'carried', 'nil'),
    mutant('totals start over too early', 'total > MAX_RUNNING_TOTAL', '>', '>='),
    mutant(
      'a log tells what has left',
      'answer[size + 1], answer[size + 2] = newestUs, total',
      'total',
      'total + before',
    ),
    mutant('a log frees what is not enough', 'local freed = total + cost - limit', 'limit', 'limit - 1'),
  ];
}

function inSlidingWindowCounters(): readonly Mutant[] {
  return [
    mutant('the window before is one further back', 'storedIndex == index - 1', '- 1', '- 2'),
    mutant('a counter forgives a tolerated step', 'storedIndex * windowUs - nowUs > max(windowUs', '>', '>='),
    mutant(
      'a long counter forgives early',
      'nowUs > max(windowUs, TOLERATED_STEP_US) then\n      current',
      'windowUs',
      '0',
    ),
    mutant(
      'a forgiven counter forgets the window before',
      'current = storedCurrent + storedPrevious',
      ' + storedPrevious',
      '',
    ),
    mutant(
      'a forgiven counter is not kept',
      "carried = pack('<ddd', index, current, 0)",
      'carried',
      'local _',
    ),
    mutant('a window that was reached is left again', 'elseif storedIndex >= index then', '>=', '>'),
    mutant('a clock that stepped back fades the window', 'passedUs = max(0,', 'max', 'min'),
    mutant('the previous window weighs less', 'spare - ceil((previous', 'ceil', 'floor'),
    mutant('a part of a unit is room', 'leftTicks <= floor((spare', 'floor', 'ceil'),
    mutant('all ticks are room', 'leftTicks <= floor((spare', '<=', '<'),
    mutant('a counter ends a window early', '(index + 2) * windowUs - nowUs', '2', '1'),
  ];
}

function inTheScript(): readonly Mutant[] {
  return [
    mutant('all or none is any', 'allowed = allowed and fits', 'and', 'or'),
    mutant('a denial spends', 'kept = limit.carried', 'carried', 'spent'),
    mutant('a carried state is not kept', 'kept = limit.carried', 'limit.carried', 'nil'),
    mutant('a state never expires', "kept, 'PX', lifeMs", ", 'PX', lifeMs", ''),
    mutant('seconds are taken for milliseconds', "'PX', lifeMs", 'PX', 'EX'),
    mutant('a state expires a millisecond early', 'ceil(resetAfterUs / 1000)', 'ceil', 'floor'),
    mutant('a foreign clock gets no grace', 'FOREIGN_CLOCK_GRACE_MS = 3600000', '3600000', '0'),
    mutant("the server's clock gets a grace", 'time[2], 0', '0', '1'),
    mutant("the server's microseconds are lost", 'time[1] * 1000000 + time[2]', ' + time[2]', ''),
    mutant('a look spends', "peek = verb == 'peek'", '==', '~='),
    mutant('a misspelled check spends', "verb ~= 'check' and", "verb ~= 'check'", 'false'),
    mutant('a limit with room lives as if spent', 'kept and limit.allowed', 'limit.allowed', 'false'),
    mutant('a foreign value is a state', 'if moreBytes ~= 0 and', 'moreBytes ~= 0', 'false'),
    mutant('a state may be longer', 'limit.recordBytes == 0 or', 'limit.recordBytes == 0', 'false'),
    mutant('a log may have no records', '(moreBytes < 0 or', 'moreBytes < 0', 'false'),
    mutant('a log may have half a record', 'moreBytes % limit.recordBytes > 0', '> 0', '> 99'),
    mutant('a fraction may be a number of a state', 'number % 1 == 0', '==', '>='),
    mutant('a number of a state may be below 0', 'if not (number >= 0 and', 'number >= 0', 'true'),
    mutant('a number of a state may pass 2^53', 'number <= MAX_SAFE and', 'number <= MAX_SAFE', 'true'),
    mutant('a log of no numbers is a log', 'if not (total >= 0) then', 'not (total >= 0)', 'false'),
    mutant('a fault is a denial', 'answer[size] = FAULT', 'FAULT', '0'),
    mutant('something follows a fault', 'nowUs, admitted, nil', 'nil', 'answer[size + 1]'),
    mutant('more is said to be admitted', 'admitted = admitted + 1', '1', '2'),
    mutant("a limit reads the first one's state", "pcall('GET', keys[keyAt + place])", 'place', '1'),
    mutant(
      "a limit spends from the first one's key",
      "call('SET', keys[keyAt + place], kept, 'PX'",
      'place',
      '1',
    ),
    mutant('every decision has one key', 'keyAt = keyAt + decision.keys', 'decision.keys', '1'),
    mutant('every decision asks the first text', 'asked[byte(order, decisionAt) - 47]', 'decisionAt', '1'),
  ];
}

function inArguments(): readonly Mutant[] {
  return [
    mutant('text is a time', "find(ARGV[1], '%D')", "'%D'", "'%z'"),
    mutant('a time past 2112 is accepted', 'nowUs > MAX_TIME_US', '>', '> 1 +'),
    mutant('a cost of 2^53 is accepted', 'cost > MAX_SAFE', '>', '> 1 +'),
    mutant('a limit of 2^53 is accepted', 'max(a, b, c, d) > MAX_SAFE', '>', '> 1 +'),
    mutant('only the first number is bounded', 'max(a, b, c, d) > MAX_SAFE', 'a, b, c, d', 'a'),
    mutant('no limit is accepted', 'count < 1 or', '1', '0'),
    mutant('33 limits are accepted', 'MAX_LIMITS = 32', '32', '33'),
    mutant('a limit of nothing is accepted', 'a < leastA', 'leastA', '0'),
    mutant('a window of no length is accepted', 'b < leastB', 'leastB', '0'),
    mutant('a bucket that never drains is accepted', 'c < leastC', 'leastC', '0'),
    mutant('an offset may not be zero', 'decideFixedWindow, 16, 0, 1, 1, 0', '1, 1, 0', '1, 1, 1'),
    mutant('a decision may follow anything', "'^(%l+) (%d+)'", '^', ''),
    mutant('a limit may follow anything', "'^ (%d+) (%d+)", '^', ''),
    mutant('a limit may be cut off', 'if not decide then return nil', 'nil', '{}, #text'),
    mutant('limits without keys are accepted', 'keyCount ~= #keys', '~=', '<'),
    mutant('keys without limits are accepted', 'keyCount ~= #keys', '~=', '>'),
    mutant('a question needs no keys', 'max(1, ceil(keyCount', '1', '0'),
    mutant(
      'a letter may stand for nothing',
      "if not decision then return refuse('the order",
      'not decision',
      'false',
    ),
  ];
}

/** `place` is a piece of the script that occurs in it once; within it, `from` becomes `to`. */
export function mutant(mistake: string, place: string, from: string, to: string): Mutant {
  if (!place.includes(from)) throw new Error(`'${from}' does not occur in '${place}'`);
  return { mistake, original: place, mutated: place.replace(from, () => to) };
}
