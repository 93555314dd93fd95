// Generated from the .lua files and the list of algorithms by `npm run generate`. Edit these instead.

const SHARED: string = `\
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local pack, unpack = struct.pack, struct.unpack
local NEVER = -1
local MAX_SAFE = 9007199254740991
local HUGE = math.huge
local MAX_TIME_US = 4503599627370496
local TOLERATED_STEP_US = 5000000
local function packBucket(tatUs, fraction, tokenUnits, drainUnits, capacityUnits)
  return pack('<ddddd', tatUs, fraction, tokenUnits, drainUnits, capacityUnits)
end
local function unspentBucket(tatUs, fraction, numbers, nowUs, retryAfterUs)
  local tokenUnits, drainUnits, capacityUnits = numbers[2], numbers[3], numbers[4]
  local waitUs = tatUs - nowUs
  local overdrawn = waitUs > floor((capacityUnits - fraction) / drainUnits)
  local drainedUs = waitUs
  if fraction > 0 then drainedUs = waitUs + 1 end
  local remaining = 0
  if not overdrawn then remaining = floor((capacityUnits - waitUs * drainUnits - fraction) / tokenUnits) end
  local delayUs = 0
  if retryAfterUs == 0 then delayUs = drainedUs end
  return retryAfterUs == 0, remaining, retryAfterUs, drainedUs, delayUs
end
local function settleBucket(tatUs, fraction, numbers, cost, nowUs)
  local limit, tokenUnits, drainUnits, capacityUnits = numbers[1], numbers[2], numbers[3], numbers[4]
  if cost == 0 then return unspentBucket(tatUs, fraction, numbers, nowUs, 0) end
  if cost > limit then return unspentBucket(tatUs, fraction, numbers, nowUs, NEVER) end
  local costUnits = cost * tokenUnits
  local waitUs = tatUs - nowUs
  local leadUs = floor((capacityUnits - costUnits - fraction) / drainUnits)
  if waitUs > leadUs then return unspentBucket(tatUs, fraction, numbers, nowUs, waitUs - leadUs) end
  local owedUnits = fraction + costUnits
  local owedUs = floor(owedUnits / drainUnits)
  local spentTatUs = tatUs + owedUs
  local spentFraction = owedUnits - owedUs * drainUnits
  local debtUnits = (spentTatUs - nowUs) * drainUnits + spentFraction
  local resetAfterUs = spentTatUs - nowUs
  if spentFraction > 0 then resetAfterUs = resetAfterUs + 1 end
  local delayUs = waitUs
  if fraction > 0 then delayUs = delayUs + 1 end
  return true, floor((capacityUnits - debtUnits) / tokenUnits), 0, resetAfterUs, delayUs,
    packBucket(spentTatUs, spentFraction, tokenUnits, drainUnits, capacityUnits)
end
local function convertDebt(tatUs, fraction, oldTokenUnits, oldDrainUnits, numbers, nowUs)
  local oldUnits = (tatUs - nowUs) * oldDrainUnits + fraction
  local tokens = floor(oldUnits / oldTokenUnits)
  local restUnits = oldUnits - tokens * oldTokenUnits
  local product = restUnits * numbers[2]
  local rest
  if product + oldTokenUnits <= MAX_SAFE then
    rest = ceil(product / oldTokenUnits)
  else
    rest = min(numbers[2], ceil((restUnits / oldTokenUnits) * numbers[2]) + 2)
  end
  local mostUnits = min(MAX_SAFE, MAX_TIME_US * numbers[3])
  local units = tokens * numbers[2] + rest
  if units > mostUnits then return HUGE end
  return units
end
local function awaitOldDebt(tatUs, fraction, oldTokenUnits, oldDrainUnits, numbers, cost, nowUs)
  local limit, tokenUnits, drainUnits, capacityUnits = numbers[1], numbers[2], numbers[3], numbers[4]
  local fitsUs = floor((limit * oldTokenUnits - fraction) / oldDrainUnits)
  local clearUs = max(0, tatUs - nowUs - fitsUs)
  local spareUnits = capacityUnits - limit * tokenUnits
  local thenUs = max(0, ceil((cost * tokenUnits - spareUnits) / drainUnits))
  local resetAfterUs = clearUs + ceil((limit * tokenUnits) / drainUnits)
  if cost == 0 then return true, 0, 0, resetAfterUs, resetAfterUs end
  local retryAfterUs = clearUs + thenUs
  if cost > limit then retryAfterUs = NEVER end
  return false, 0, retryAfterUs, resetAfterUs, 0
end
local function settleUnderNewRate(tatUs, fraction, oldTokenUnits, oldDrainUnits, oldCapacityUnits, numbers, cost, nowUs)
  local countableUs = floor((MAX_SAFE - fraction) / oldDrainUnits)
  local emptied
  if tatUs - nowUs > countableUs then
    local wholeUs = floor(oldCapacityUnits / oldDrainUnits)
    tatUs, fraction = nowUs + wholeUs, oldCapacityUnits - wholeUs * oldDrainUnits
    emptied = packBucket(tatUs, fraction, oldTokenUnits, oldDrainUnits, oldCapacityUnits)
  end
  local debtUnits = convertDebt(tatUs, fraction, oldTokenUnits, oldDrainUnits, numbers, nowUs)
  local slower = numbers[3] / numbers[2] < oldDrainUnits / oldTokenUnits
  if debtUnits > numbers[4] and (slower or debtUnits == HUGE) then
    local allowed, remaining, retryAfterUs, resetAfterUs, delayUs =
      awaitOldDebt(tatUs, fraction, oldTokenUnits, oldDrainUnits, numbers, cost, nowUs)
    return allowed, remaining, retryAfterUs, resetAfterUs, delayUs, nil, emptied
  end
  local wholeUs = floor(debtUnits / numbers[3])
  local carriedTatUs, carriedFraction = nowUs + wholeUs, debtUnits - wholeUs * numbers[3]
  local allowed, remaining, retryAfterUs, resetAfterUs, delayUs, spent =
    settleBucket(carriedTatUs, carriedFraction, numbers, cost, nowUs)
  return allowed, remaining, retryAfterUs, resetAfterUs, delayUs, spent,
    packBucket(carriedTatUs, carriedFraction, numbers[2], numbers[3], max(numbers[4], debtUnits))
end
local function settleOwed(tatUs, fraction, tokenUnits, drainUnits, capacityUnits, numbers, cost, nowUs)
  if drainUnits == numbers[3] and tokenUnits == numbers[2] then
    return settleBucket(tatUs, fraction, numbers, cost, nowUs)
  end
  return settleUnderNewRate(tatUs, fraction, tokenUnits, drainUnits, capacityUnits, numbers, cost, nowUs)
end
local function decideBucket(state, numbers, cost, nowUs)
  if not state then return settleBucket(nowUs, 0, numbers, cost, nowUs) end
  local tatUs, fraction, tokenUnits, drainUnits, capacityUnits = unpack('<ddddd', state)
  if tatUs < nowUs then return settleBucket(nowUs, 0, numbers, cost, nowUs) end
  local fullUs = ceil(capacityUnits / drainUnits)
  if tatUs - nowUs - fullUs > max(fullUs, TOLERATED_STEP_US) then
    local wholeUs = floor(capacityUnits / drainUnits)
    tatUs, fraction = nowUs + wholeUs, capacityUnits - wholeUs * drainUnits
    local allowed, remaining, retryAfterUs, resetAfterUs, delayUs, spent, carried =
      settleOwed(tatUs, fraction, tokenUnits, drainUnits, capacityUnits, numbers, cost, nowUs)
    return allowed, remaining, retryAfterUs, resetAfterUs, delayUs, spent,
      carried or packBucket(tatUs, fraction, tokenUnits, drainUnits, capacityUnits)
  end
  return settleOwed(tatUs, fraction, tokenUnits, drainUnits, capacityUnits, numbers, cost, nowUs)
end
local function decideTokenBucket(state, numbers, cost, nowUs)
  local allowed, remaining, retryAfterUs, resetAfterUs, _, spent, carried = decideBucket(state, numbers, cost, nowUs)
  return allowed, remaining, retryAfterUs, resetAfterUs, 0, spent, carried
end
local decideLeakyBucket = decideBucket
local function decideFixedWindow(state, numbers, cost, nowUs)
  local limit, windowUs, offsetUs = numbers[1], numbers[2], numbers[3]
  local currentUs = floor((nowUs - offsetUs) / windowUs) * windowUs + offsetUs
  local startUs, count, carried = currentUs, 0, nil
  if state then
    local storedUs, stored = unpack('<dd', state)
    if storedUs - nowUs > max(windowUs, TOLERATED_STEP_US) then
      count, carried = stored, pack('<dd', currentUs, stored)
    elseif storedUs >= currentUs then
      startUs, count = storedUs, stored
    end
  end
  local endUs = startUs + windowUs - nowUs
  local fits = cost <= limit - count
  local after = count
  if fits then after = count + cost end
  local retryAfterUs = endUs
  if fits or cost == 0 then retryAfterUs = 0 elseif cost > limit then retryAfterUs = NEVER end
  local resetAfterUs = 0
  if after > 0 then resetAfterUs = endUs end
  local spent
  if fits and cost > 0 then spent = pack('<dd', startUs, after) end
  return fits or cost == 0, max(0, limit - after), retryAfterUs, resetAfterUs, 0, spent, carried
end
local RECORD_BYTES = 16
local MAX_RUNNING_TOTAL = 4503599627370496
local function logStampAt(log, record)
  return (unpack('<d', log, record * RECORD_BYTES + 9))
end
local function logTotalAt(log, record)
  return (unpack('<d', log, record * RECORD_BYTES + 17))
end
local function logFirstLive(log, records, horizonUs)
  local low, high = 0, records
  while low < high do
    local middle = floor((low + high) / 2)
    if logStampAt(log, middle) > horizonUs then high = middle else low = middle + 1 end
  end
  return low
end
local function logFreedAtUs(log, records, total)
  local low, high = 0, records - 1
  while low < high do
    local middle = floor((low + high) / 2)
    if logTotalAt(log, middle) >= total then high = middle else low = middle + 1 end
  end
  return logStampAt(log, low)
end
local function logStartOver(log)
  local before = unpack('<d', log)
  local parts = { pack('<d', 0) }
  for record = 0, (#log - 8) / RECORD_BYTES - 1 do
    parts[#parts + 1] = pack('<dd', logStampAt(log, record), logTotalAt(log, record) - before)
  end
  return table.concat(parts)
end
local function logAppend(log, records, first, stampUs, cost)
  local total = logTotalAt(log, records - 1) + cost
  local joins = first < records and logStampAt(log, records - 1) == stampUs
  local last = #log
  if joins then last = last - RECORD_BYTES end
  local live = log:sub(first * RECORD_BYTES + 1, last) .. pack('<dd', stampUs, total)
  if total > MAX_RUNNING_TOTAL then return logStartOver(live) end
  return live
end
local function logAfterStepBack(log, windowUs, stepUs, nowUs)
  local records = (#log - 8) / RECORD_BYTES
  if records == 0 or logStampAt(log, records - 1) - nowUs <= max(windowUs, TOLERATED_STEP_US) then return nil end
  local total = logTotalAt(log, records - 1) - logTotalAt(log, logFirstLive(log, records, nowUs - windowUs) - 1)
  return pack('<ddd', 0, ceil(nowUs / stepUs) * stepUs, total)
end
local function decideSlidingWindowLog(state, numbers, cost, nowUs)
  local limit, windowUs, stepUs = numbers[1], numbers[2], numbers[3]
  local carried = state and logAfterStepBack(state, windowUs, stepUs, nowUs)
  local log = carried or state or pack('<d', 0)
  local records = (#log - 8) / RECORD_BYTES
  local first = logFirstLive(log, records, nowUs - windowUs)
  local before = logTotalAt(log, first - 1)
  local total = logTotalAt(log, records - 1) - before
  local newestUs = 0
  if first < records then newestUs = logStampAt(log, records - 1) end
  if cost <= limit - total and cost > 0 then
    local stampUs = max(newestUs, ceil(nowUs / stepUs) * stepUs)
    return true, limit - total - cost, 0, stampUs + windowUs - nowUs, 0,
      logAppend(log, records, first, stampUs, cost), carried
  end
  local retryAfterUs = 0
  if cost > limit then
    retryAfterUs = NEVER
  elseif cost > 0 then
    retryAfterUs = logFreedAtUs(log, records, total + before + cost - limit) + windowUs - nowUs
  end
  local resetAfterUs = 0
  if first < records then resetAfterUs = newestUs + windowUs - nowUs end
  return cost == 0, max(0, limit - total), retryAfterUs, resetAfterUs, 0, nil, carried
end
local function counterRoomLeft(spare, previous, leftTicks, windowTicks)
  if spare <= 0 then return 0 end
  if previous == 0 then return spare end
  if leftTicks > floor((spare * windowTicks) / previous) then return 0 end
  return spare - ceil((previous * leftTicks) / windowTicks)
end
local function counterRetryAfterUs(index, current, previous, numbers, cost, nowUs)
  local limit, windowUs, tickUs = numbers[1], numbers[2], numbers[3]
  if cost > limit then return NEVER end
  local windowTicks = windowUs / tickUs
  local spare = limit - current - cost
  local startUs, fading, room = index * windowUs, previous, spare
  if spare < 0 then startUs, fading, room = (index + 1) * windowUs, current, limit - cost end
  local passedTicks = max(0, windowTicks - floor((room * windowTicks) / fading))
  return startUs + passedTicks * tickUs - nowUs
end
local function decideSlidingWindowCounter(state, numbers, cost, nowUs)
  local limit, windowUs, tickUs = numbers[1], numbers[2], numbers[3]
  local index, current, previous = floor(nowUs / windowUs), 0, 0
  local carried
  if state then
    local storedIndex, storedCurrent, storedPrevious = unpack('<ddd', state)
    if storedIndex == index - 1 then
      previous = storedCurrent
    elseif storedIndex * windowUs - nowUs > max(windowUs, TOLERATED_STEP_US) then
      current = storedCurrent + storedPrevious
      carried = pack('<ddd', index, current, 0)
    elseif storedIndex >= index then
      index, current, previous = storedIndex, storedCurrent, storedPrevious
    end
  end
  local windowTicks = windowUs / tickUs
  local passedUs = max(0, nowUs - index * windowUs)
  local leftTicks = windowTicks - floor(passedUs / tickUs)
  local room = counterRoomLeft(limit - current, previous, leftTicks, windowTicks)
  local fits = cost <= room
  local after, remaining, retryAfterUs, spent = current, room, 0, nil
  if fits then
    after, remaining = current + cost, room - cost
    if cost > 0 then spent = pack('<ddd', index, after, previous) end
  else
    retryAfterUs = counterRetryAfterUs(index, current, previous, numbers, cost, nowUs)
  end
  local resetAfterUs = 0
  if after > 0 then
    resetAfterUs = (index + 2) * windowUs - nowUs
  elseif previous > 0 then
    resetAfterUs = (index + 1) * windowUs - nowUs
  end
  return fits, remaining, retryAfterUs, resetAfterUs, 0, spent, carried
end
local function algorithmOf(number)
  if number == '1' then return decideTokenBucket, 40, 0, 1, 1, 1, 0 end
  if number == '2' then return decideLeakyBucket, 40, 0, 1, 1, 1, 0 end
  if number == '3' then return decideFixedWindow, 16, 0, 1, 1, 0, 0 end
  if number == '4' then return decideSlidingWindowLog, 24, 16, 1, 1, 1, 0 end
  if number == '5' then return decideSlidingWindowCounter, 24, 0, 1, 1, 1, 0 end
end
local find, tonumber = string.find, tonumber
local LIMIT_PATTERN = '^ (%d+) (%d+) (%d+) (%d+) (%d+)'
local function refuse(what, value)
  return redis.error_reply('SPILLGATE ' .. what .. ' is ' .. tostring(value) .. '; expected digits up to 2^53 - 1')
end
local function serverTimeUs()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local FOREIGN_CLOCK_GRACE_MS = 3600000
local nowUs, graceMs
if ARGV[1] == '' then
  nowUs, graceMs = serverTimeUs(), 0
elseif ARGV[1] and not find(ARGV[1], '%D') then
  nowUs, graceMs = tonumber(ARGV[1]), FOREIGN_CLOCK_GRACE_MS
end
if not nowUs or nowUs > MAX_TIME_US then return refuse('the time', ARGV[1]) end
local function parseLimit(text, from)
  local _, last, number, a, b, c, d = find(text, LIMIT_PATTERN, from)
  local decide, leastBytes, recordBytes, leastA, leastB, leastC, leastD = algorithmOf(number)
  if not decide then return nil end
  a, b, c, d = tonumber(a), tonumber(b), tonumber(c), tonumber(d)
  if a < leastA or b < leastB or c < leastC or d < leastD or max(a, b, c, d) > MAX_SAFE then return nil end
  return {
    decide = decide, leastBytes = leastBytes, recordBytes = recordBytes, numbers = { a, b, c, d },
    state = false, spent = false, carried = false,
    allowed = false, remaining = 0, retryAfterUs = 0, resetAfterUs = 0, delayUs = 0,
  }, last
end
local function isState(state, limit)
  if limit.recordBytes == 0 then return #state == limit.leastBytes end
  return #state >= limit.leastBytes and (#state - limit.leastBytes) % limit.recordBytes == 0
end
local function keep(key, state, resetAfterUs)
  redis.call('SET', key, state, 'PX', string.format('%.0f', max(1, ceil(resetAfterUs / 1000) + graceMs)))
end
`;

export const DECIDE_SHA1 = '1152dc5d5086afafb4b55c17b9879fbbe86f6bef';

export const DECIDE_SCRIPT: string = `${SHARED}\
local MAX_LIMITS = 32
local FAULT = -1
local function parse(text)
  local _, at, verb, cost = find(text, '^(%l+) (%d+)')
  if verb ~= 'check' and verb ~= 'peek' then return nil end
  local decision = { peek = verb == 'peek', cost = tonumber(cost) }
  if decision.cost > MAX_SAFE then return nil end
  local count = 0
  while at < #text do
    count = count + 1
    decision[count], at = parseLimit(text, at + 1)
    if not at then return nil end
  end
  if count < 1 or count > MAX_LIMITS then return nil end
  return decision
end
local decisions = {}
local keyCount = 0
for at = 2, #ARGV do
  local text = ARGV[at]
  local decision = decisions[text]
  if not decision then
    decision = parse(text)
    if not decision then return refuse('a decision', text) end
    decisions[text] = decision
  end
  keyCount = keyCount + #decision
end
if keyCount ~= #KEYS then return refuse('the number of keys', #KEYS) end
local answer, size = {}, 0
local function add(allowed, remaining, retryAfterUs, resetAfterUs, delayUs)
  answer[size + 1], answer[size + 2], answer[size + 3] = allowed, remaining, retryAfterUs
  answer[size + 4], answer[size + 5] = resetAfterUs, delayUs
  size = size + 5
end
local function isAnswer(remaining, retryAfterUs, resetAfterUs, delayUs)
  local largest = max(remaining, retryAfterUs, resetAfterUs, delayUs)
  local sum = remaining + retryAfterUs + resetAfterUs + delayUs
  return largest <= MAX_SAFE and min(remaining, resetAfterUs, delayUs) >= 0 and retryAfterUs >= NEVER and sum == floor(sum)
end
local function decideAll(decision, keyAt)
  for place = 1, #decision do
    local limit = decision[place]
    local state = redis.pcall('GET', KEYS[keyAt + place])
    if state and not isState(state, limit) then return false end
    local allowed, remaining, retryAfterUs, resetAfterUs, delayUs, spent, carried =
      limit.decide(state, limit.numbers, decision.cost, nowUs)
    if not isAnswer(remaining, retryAfterUs, resetAfterUs, delayUs) then return false end
    limit.state, limit.allowed, limit.remaining, limit.retryAfterUs = state, allowed, remaining, retryAfterUs
    limit.resetAfterUs, limit.delayUs, limit.spent, limit.carried = resetAfterUs, delayUs, spent, carried
  end
  return true
end
local function peek(decision)
  for place = 1, #decision do
    local limit = decision[place]
    local _, remaining, _, resetAfterUs = limit.decide(limit.state, limit.numbers, 0, nowUs)
    add(limit.allowed and 1 or 0, remaining, limit.retryAfterUs, resetAfterUs, limit.delayUs)
  end
end
local function check(decision, keyAt)
  local admitted = true
  for place = 1, #decision do admitted = admitted and decision[place].allowed end
  for place = 1, #decision do
    local limit = decision[place]
    if admitted then
      if limit.spent then keep(KEYS[keyAt + place], limit.spent, limit.resetAfterUs) end
      add(1, limit.remaining, 0, limit.resetAfterUs, limit.delayUs)
    else
      if limit.allowed then
        local _, remaining, _, resetAfterUs, delayUs = limit.decide(limit.state, limit.numbers, 0, nowUs)
        limit.remaining, limit.resetAfterUs, limit.delayUs = remaining, resetAfterUs, delayUs
      end
      if limit.carried then keep(KEYS[keyAt + place], limit.carried, limit.resetAfterUs) end
      add(limit.allowed and 1 or 0, limit.remaining, limit.retryAfterUs, limit.resetAfterUs, limit.delayUs)
    end
  end
end
local keyAt = 0
for at = 2, #ARGV do
  local decision = decisions[ARGV[at]]
  if not decideAll(decision, keyAt) then
    for _ = 1, #decision do add(FAULT, 0, 0, 0, 0) end
  elseif decision.peek then
    peek(decision)
  else
    check(decision, keyAt)
  end
  keyAt = keyAt + #decision
end
answer[size + 1] = nowUs
return answer
`;

export const REFUND_SHA1 = 'fc486e56b9ac26fbd2a5b05ec1e91f6a6f4e5cb5';

export const REFUND_SCRIPT: string = `${SHARED}\
local function refundBucket(state, numbers, cost, reservedAtUs)
  local tatUs, fraction, tokenUnits, drainUnits, capacityUnits = unpack('<ddddd', state)
  if nowUs < reservedAtUs then return state end
  if tokenUnits ~= numbers[2] or drainUnits ~= numbers[3] then return state end
  local creditUnits = cost * tokenUnits - (nowUs - reservedAtUs) * drainUnits
  if creditUnits <= 0 then return state end
  local creditUs = floor(creditUnits / drainUnits)
  local leftFraction = fraction - (creditUnits - creditUs * drainUnits)
  if leftFraction < 0 then creditUs, leftFraction = creditUs + 1, leftFraction + drainUnits end
  return packBucket(tatUs - creditUs, leftFraction, tokenUnits, drainUnits, capacityUnits)
end
local refundTokenBucket = refundBucket
local refundLeakyBucket = refundBucket
local function refundFixedWindow(state, numbers, cost, _, absentAtUs)
  local startUs, count = unpack('<dd', state)
  if startUs ~= absentAtUs - numbers[2] or count < cost then return state end
  return pack('<dd', startUs, count - cost)
end
local function refundSlidingWindowLog(state, numbers, cost, _, absentAtUs)
  local records = (#state - 8) / RECORD_BYTES
  local place
  for at = 0, records - 1 do
    if logStampAt(state, at) == absentAtUs - numbers[2] then place = at end
  end
  if not place then return state end
  local own = logTotalAt(state, place) - logTotalAt(state, place - 1)
  if own < cost then return state end
  local parts = { state:sub(1, 8 + place * RECORD_BYTES) }
  for at = own == cost and place + 1 or place, records - 1 do
    parts[#parts + 1] = pack('<dd', logStampAt(state, at), logTotalAt(state, at) - cost)
  end
  return table.concat(parts)
end
local function refundSlidingWindowCounter(state, numbers, cost, _, absentAtUs)
  local index, current, previous = unpack('<ddd', state)
  local reservedIndex = absentAtUs / numbers[2] - 2
  if index == reservedIndex and current >= cost then return pack('<ddd', index, current - cost, previous) end
  if index == reservedIndex + 1 and previous >= cost then return pack('<ddd', index, current, previous - cost) end
  return state
end
local function refundOf(decide)
  if decide == decideTokenBucket then return refundTokenBucket end
  if decide == decideLeakyBucket then return refundLeakyBucket end
  if decide == decideFixedWindow then return refundFixedWindow end
  if decide == decideSlidingWindowLog then return refundSlidingWindowLog end
  if decide == decideSlidingWindowCounter then return refundSlidingWindowCounter end
end
local function integer(text)
  if not text or text == '' or find(text, '%D') then return nil end
  local number = tonumber(text)
  if number > MAX_SAFE then return nil end
  return number
end
local reservedAtUs, cost = integer(ARGV[2]), integer(ARGV[3])
if not (reservedAtUs and cost and #ARGV == 3 + 2 * #KEYS) then return refuse('a refund', #ARGV) end
local limits = {}
for place = 1, #KEYS do
  local text, absentAtUs = ARGV[2 + 2 * place], integer(ARGV[3 + 2 * place])
  local limit, last = parseLimit(text, 1)
  if last ~= #text or not absentAtUs then return refuse('a limit', text) end
  limit.absentAtUs = absentAtUs
  limits[place] = limit
end
local answer = {}
for place = 1, #limits do
  local limit = limits[place]
  local state = redis.pcall('GET', KEYS[place])
  if not state or not isState(state, limit) then state = nil end
  local refunded = state and refundOf(limit.decide)(state, limit.numbers, cost, reservedAtUs, limit.absentAtUs)
  local allowed, remaining, retryAfterUs, resetAfterUs, delayUs = limit.decide(refunded, limit.numbers, 0, nowUs)
  if refunded ~= state then
    if resetAfterUs > 0 then keep(KEYS[place], refunded, resetAfterUs) else redis.call('DEL', KEYS[place]) end
  end
  local size = #answer
  answer[size + 1], answer[size + 2], answer[size + 3] = allowed and 1 or 0, remaining, retryAfterUs
  answer[size + 4], answer[size + 5] = resetAfterUs, delayUs
end
return answer
`;

export const LEASE_SHA1 = 'd140219c4fe555d5be2cb602b879e9a6c5ebb3c5';

export const LEASE_SCRIPT: string = `${SHARED}\
local FAULT = -1
local function integerAt(place)
  local text = ARGV[place]
  if not text or text == '' or find(text, '%D') then return nil end
  local number = tonumber(text)
  if number > MAX_SAFE then return nil end
  return number
end
local limit, last = parseLimit(ARGV[3] or '', 1)
if not limit or last ~= #ARGV[3] or limit.decide ~= decideTokenBucket then return refuse('a limit', ARGV[3]) end
local state = redis.pcall('GET', KEYS[1])
if state and not isState(state, limit) then return { FAULT, 0, 0, 0, nowUs } end
if ARGV[2] == 'lease' then
  local want = integerAt(4)
  if not want or want < 1 then return refuse('the tokens wanted', ARGV[4]) end
  local _, available = limit.decide(state, limit.numbers, 0, nowUs)
  local tokens = min(want, floor(available / 4))
  if available * 4 >= limit.numbers[1] * 3 then tokens = max(tokens, min(4 * want, floor(available / 20))) end
  if tokens < 1 then return { 0, available, 0, 0, nowUs } end
  local _, left, _, resetAfterUs, _, spent = limit.decide(state, limit.numbers, tokens, nowUs)
  if not spent then return { 0, available, 0, 0, nowUs } end
  keep(KEYS[1], spent, resetAfterUs)
  local endUs, endFraction = unpack('<dd', spent)
  return { tokens, left, endUs, endFraction, nowUs }
end
if ARGV[2] ~= 'return' then return refuse('the verb', ARGV[2]) end
local nextUs, nextFraction, endUs, endFraction = integerAt(4), integerAt(5), integerAt(6), integerAt(7)
if not (nextUs and nextFraction and endUs and endFraction) then return refuse('a lease', ARGV[4]) end
if not state then return { 0 } end
local tatUs, fraction, tokenUnits, drainUnits, capacityUnits = unpack('<ddddd', state)
if tatUs ~= endUs or fraction ~= endFraction then return { 0 } end
if tokenUnits ~= limit.numbers[2] or drainUnits ~= limit.numbers[3] then return { 0 } end
if nextUs > endUs or (nextUs == endUs and nextFraction >= endFraction) then return { 0 } end
if nextUs < nowUs then nextUs, nextFraction = nowUs, 0 end
local returned = packBucket(nextUs, nextFraction, tokenUnits, drainUnits, capacityUnits)
local _, _, _, resetAfterUs = limit.decide(returned, limit.numbers, 0, nowUs)
if resetAfterUs > 0 then
  keep(KEYS[1], returned, resetAfterUs)
else
  redis.call('DEL', KEYS[1])
end
return { 1 }
`;
