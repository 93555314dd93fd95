// Generated from the .lua files and the list of algorithms by `npm run generate`. Edit these instead.
export const PRELUDE: string = `\
local floor, ceil, max = math.floor, math.ceil, math.max
local pack, unpack = struct.pack, struct.unpack
local MAX_SAFE = 9007199254740991
local MAX_TIME_US = 4503599627370496
local TOLERATED_STEP_US = 5000000
local answer, size = { 0, 0, nil, nil, nil }, 2
`;

/** The frame: up to where the algorithms of a script are listed, after it, and what is in every script but one. */
export const FRAME_HEAD: string = `\
local call, pcall, find = redis.call, redis.pcall, string.find
local LIMIT_PATTERN = '^ (%d+) (%d+) (%d+) (%d+) (%d+)(@?)'
local function refuse(what, value)
  return redis.error_reply('SPILLGATE ' .. what .. ' is ' .. tostring(value) .. '; expected digits up to 2^53 - 1')
end
local FOREIGN_CLOCK_GRACE_MS = 3600000
local nowUs, graceMs
if ARGV[1] == '' then
  local time = call('TIME')
  nowUs, graceMs = time[1] * 1000000 + time[2], 0
elseif ARGV[1] and not find(ARGV[1], '%D') then
  nowUs, graceMs = tonumber(ARGV[1]), FOREIGN_CLOCK_GRACE_MS
end
if not nowUs or nowUs > MAX_TIME_US then return refuse('the time', ARGV[1]) end
local function parseLimit(text, from)
  local _, last, number, a, b, c, d, own = find(text, LIMIT_PATTERN, from)
  local decide, leastBytes, recordBytes, leastA, leastB, leastC, leastD
`;

export const FRAME_TAIL: string = `\
  if not decide then return nil end
  a, b, c, d = a + 0, b + 0, c + 0, d + 0
  if own == '' then
    own = false
  else
    _, last, own = find(text, '^(%d+)', last + 1)
    if not last or own + 0 > MAX_SAFE then return nil end
    own = own + 0
  end
  --@penalty
  local after, withinUs, forUs
  local _, blockEnd, count, within, length = find(text, '^!(%d+) (%d+) (%d+)', last + 1)
  if blockEnd then
    last, after, withinUs, forUs = blockEnd, count + 0, within + 0, length + 0
    if after < 1 or withinUs < 1 or forUs < 1 or max(after, withinUs, forUs) > MAX_TIME_US then return nil end
  end
  --@end
  if a < leastA or b < leastB or c < leastC or d < leastD or max(a, b, c, d) > MAX_SAFE then return nil end
  return {
    a, b, c, d,
    cost = own, decide = decide, leastBytes = leastBytes, recordBytes = recordBytes,
    state = false, allowed = false, resetAfterUs = 0, spent = false, carried = false,
    --@penalty
    after = after, withinUs = withinUs, forUs = forUs, penaltyAt = false, penalty = false, penaltyLifeUs = 0,
    --@end
  }, last
end
`;

export const BESIDE_DECIDE: string = `\
local function isState(state, limit)
  if limit.recordBytes == 0 then return #state == limit.leastBytes end
  return #state >= limit.leastBytes and (#state - limit.leastBytes) % limit.recordBytes == 0
end
local function keep(key, state, resetAfterUs)
  if nowUs + resetAfterUs > MAX_TIME_US then
    call('SET', key, state)
    return
  end
  call('SET', key, state, 'PX', max(1, ceil(resetAfterUs / 1000) + graceMs))
end
local function integerAt(place)
  local text = ARGV[place]
  if not text or text == '' or find(text, '%D') then return nil end
  local number = tonumber(text)
  if number > MAX_SAFE then return nil end
  return number
end
`;

/** What decides about blocks, in the scripts of limits that have them. */
export const PENALTY: string = `\
local function penaltyLeft(state, limit, nowUs)
  local untilUs = unpack('<d', state)
  if not (untilUs >= 0 and untilUs <= MAX_TIME_US * 2 and untilUs % 1 == 0) then return nil end
  local leftUs = untilUs - nowUs
  if leftUs <= 0 then return 0 end
  if leftUs - limit.forUs > max(limit.forUs, TOLERATED_STEP_US) then return limit.forUs end
  return leftUs
end
local function penaltyAfterDenial(state, limit, nowUs)
  local count, first, newestUs = 0, 0, nowUs
  if state then count = #state / 8 - 1 end
  while first < count and unpack('<d', state, first * 8 + 9) <= nowUs - limit.withinUs do first = first + 1 end
  local live = count - first
  if live + 1 >= limit.after then return pack('<d', nowUs + limit.forUs), limit.forUs, true end
  local kept = ''
  if live > 0 then
    newestUs = unpack('<d', state, count * 8 + 1)
    if not (newestUs >= 0 and newestUs <= MAX_TIME_US * 2 and newestUs % 1 == 0) then return nil end
    kept = state:sub(first * 8 + 9)
  end
  if newestUs - nowUs > max(limit.withinUs, TOLERATED_STEP_US) then
    newestUs, kept = nowUs, string.rep(pack('<d', nowUs), live)
  end
  local stampUs = max(newestUs, nowUs)
  return pack('<d', 0) .. kept .. pack('<d', stampUs), stampUs + limit.withinUs - nowUs, false
end
`;

export const DECIDE: string = `\
local MAX_LIMITS = 32
local FAULT = -1
local byte = string.byte
local texts, order = #ARGV - 1, nil
if texts > 1 then texts, order = texts - 1, ARGV[#ARGV] end
local asked = { nil }
for at = 1, texts do
  local text = ARGV[at + 1]
  local _, last, verb, cost = find(text, '^(%l+) (%d+)')
  if verb ~= 'check' and verb ~= 'peek' then return refuse('a decision', text) end
  cost = cost + 0
  if cost > MAX_SAFE then return refuse('a decision', text) end
  local decision, count = { nil, peek = verb == 'peek', cost = cost, keys = 0 }, 0
  while last < #text do
    count = count + 1
    decision[count], last = parseLimit(text, last + 1)
    if not last then return refuse('a decision', text) end
  end
  if count < 1 or count > MAX_LIMITS then return refuse('a decision', text) end
  decision.keys = count
  --@penalty
  for place = 1, count do
    local limit = decision[place]
    if limit.after then
      decision.keys = decision.keys + 1
      limit.penaltyAt = decision.keys
    end
  end
  --@end
  asked[at] = decision
end
local keys = KEYS
local decision, keyCount = asked[1], #keys
if order then
  keyCount = 0
  for at = 1, #order do
    decision = asked[byte(order, at) - 47]
    if not decision then return refuse('the order of decisions', order) end
    keyCount = keyCount + decision.keys
  end
elseif decision then
  keyCount = max(1, ceil(keyCount / decision.keys)) * decision.keys
end
if keyCount ~= #keys then return refuse('the number of keys', #keys) end
local admitted, keyAt, decisionAt = 0, 0, 0
while keyAt < keyCount do
  decisionAt = decisionAt + 1
  if order then decision = asked[byte(order, decisionAt) - 47] end
  local cost, first, faulty, allowed = decision.cost, size, false, true
  for place = 1, #decision do
    local limit = decision[place]
    local state = pcall('GET', keys[keyAt + place])
    if state then
      local moreBytes = #state - limit.leastBytes
      if moreBytes ~= 0 and (moreBytes < 0 or limit.recordBytes == 0 or moreBytes % limit.recordBytes > 0) then
        faulty = true
        break
      end
    end
    size = size + 1
    local count = size
    local fits, resetAfterUs, spent, carried, held = limit.decide(state, limit, limit.cost or cost, nowUs)
    answer[count] = size - count
    faulty = fits == nil
    for at = count + 1, size do
      local number = answer[at]
      if not (number >= 0 and number <= MAX_SAFE and number % 1 == 0) then faulty = true end
    end
    if faulty then break end
    limit.state, limit.allowed, limit.resetAfterUs, limit.spent, limit.carried = state, fits, resetAfterUs, spent, carried
    allowed = allowed and fits
    --@penalty
    if limit.after then
      local known, leftUs, began = pcall('GET', keys[keyAt + limit.penaltyAt]), 0, 0
      limit.penalty = false
      if known and (#known < 8 or #known % 8 > 0) then
        faulty = true
        break
      end
      if known and not held then leftUs = penaltyLeft(known, limit, nowUs) end
      if not leftUs then
        faulty = true
        break
      end
      if leftUs > 0 then
        allowed = false
        if unpack('<d', known) ~= nowUs + leftUs then
          limit.penalty, limit.penaltyLifeUs = pack('<d', nowUs + leftUs), leftUs
        end
      elseif not fits and not decision.peek then
        local penalty, lifeUs, begins = penaltyAfterDenial(known, limit, nowUs)
        if not penalty then
          faulty = true
          break
        end
        limit.penalty, limit.penaltyLifeUs = penalty, lifeUs
        if begins then leftUs, began = limit.forUs, 1 end
      end
      answer[size + 1], answer[size + 2] = leftUs, began
      size = size + 2
    end
    --@end
  end
  if faulty then
    size = first + 1
    answer[size] = FAULT
  else
    if allowed then admitted = admitted + 1 end
    if not decision.peek then
      for place = 1, #decision do
        local limit = decision[place]
        local kept, resetAfterUs = limit.spent, limit.resetAfterUs
        if not allowed then
          kept = limit.carried
          if kept and limit.allowed then
            local told, _ = size, nil
            _, resetAfterUs = limit.decide(limit.state, limit, 0, nowUs)
            size = told
          end
        end
        if kept then
          if nowUs + resetAfterUs > MAX_TIME_US then
            call('SET', keys[keyAt + place], kept)
          else
            local lifeMs = max(1, ceil(resetAfterUs / 1000) + graceMs)
            call('SET', keys[keyAt + place], kept, 'PX', lifeMs)
          end
        end
        --@penalty
        if limit.after and limit.penalty and cost > 0 then
          local lifeMs = max(1, ceil(limit.penaltyLifeUs / 1000) + graceMs)
          call('SET', keys[keyAt + limit.penaltyAt], limit.penalty, 'PX', lifeMs)
        end
        --@end
      end
    end
  end
  keyAt = keyAt + decision.keys
end
answer[1], answer[2], answer[size + 1] = nowUs, admitted, nil
return answer
`;

export const REFUND: string = `\
local reservedAtUs, cost = integerAt(2), integerAt(3)
if not (reservedAtUs and cost and #ARGV == 3 + 2 * #KEYS) then return refuse('a refund', #ARGV) end
local limits = {}
for place = 1, #KEYS do
  local text, absentAtUs = ARGV[2 + 2 * place], integerAt(3 + 2 * place)
  local limit, last = parseLimit(text, 1)
  if last ~= #text or not absentAtUs then return refuse('a limit', text) end
  limit.absentAtUs = absentAtUs
  limits[place] = limit
end
for place = 1, #limits do
  local limit = limits[place]
  local state = pcall('GET', KEYS[place])
  if not state or not isState(state, limit) then state = nil end
  local refunded = state and refundOf(limit.decide)(state, limit, limit.cost or cost, reservedAtUs, limit.absentAtUs)
  size = size + 1
  local count = size
  local _, resetAfterUs = limit.decide(refunded, limit, 0, nowUs)
  answer[count] = size - count
  if refunded ~= state then
    if resetAfterUs > 0 then keep(KEYS[place], refunded, resetAfterUs) else call('DEL', KEYS[place]) end
  end
end
answer[1], answer[2] = nowUs, 1
return answer
`;

export const LEASE: string = `\
local FAULT = -1
local limit, last = parseLimit(ARGV[3] or '', 1)
if not limit or last ~= #ARGV[3] then return refuse('a limit', ARGV[3]) end
local state = pcall('GET', KEYS[1])
if state and not isState(state, limit) then return { FAULT, 0, 0, 0, nowUs } end
local roomIn, charge, takeBack, passes = leaseOf(limit.decide)
if ARGV[2] == 'lease' then
  local want = integerAt(4)
  if not want or want < 1 then return refuse('the tokens wanted', ARGV[4]) end
  local min = math.min
  local before = roomIn(state, limit)
  local tokens = min(want, floor(before / 4))
  if passes and before * 4 >= limit[1] * 3 then tokens = max(tokens, min(4 * want, floor(before / 20))) end
  if tokens < 1 then return { 0, before, 0, 0, nowUs } end
  local spent, lifeUs, endUs, endFraction = charge(state, limit, tokens)
  if not spent then return { 0, before, 0, 0, nowUs } end
  keep(KEYS[1], spent, lifeUs)
  return { tokens, roomIn(spent, limit), endUs, endFraction, nowUs }
end
if ARGV[2] ~= 'return' then return refuse('the verb', ARGV[2]) end
local a, b, c, d = integerAt(4), integerAt(5), integerAt(6), integerAt(7)
if not (a and b and c and d) then return refuse('a lease', ARGV[4]) end
if not state then return { 0 } end
local returned = takeBack(state, limit, a, b, c, d)
if returned == state then return { 0 } end
local _, resetAfterUs = limit.decide(returned, limit, 0, nowUs)
if resetAfterUs > 0 then
  keep(KEYS[1], returned, resetAfterUs)
else
  call('DEL', KEYS[1])
end
return { 1 }
`;

export const SETTLE: string = `\
local EXPIRED, FAULT = -1, -2
local lifeMs = integerAt(2)
if not lifeMs or lifeMs < 1 or #ARGV ~= 2 + 3 * (#KEYS - 1) then return refuse('a settlement', #ARGV) end
local PARTS = { refund = ' (%d+) (%d+) (%d+)', ['return'] = ' (%d+) (%d+) (%d+) (%d+)' }
local function parseChange(text)
  local verb = string.match(text or '', '^%l+')
  if verb == 'charge' then
    local cost = string.match(text, '^charge (%d+)$')
    if not cost or cost + 0 > MAX_SAFE then return nil end
    return { charge = cost + 0 }
  end
  local pattern = PARTS[verb or '']
  if not pattern then return nil end
  local change, at = { verb = verb }, #verb + 1
  while at <= #text do
    local _, last, a, b, c, d = find(text, '^' .. pattern, at)
    if not last then return nil end
    local part = { a + 0, b + 0, c + 0, (d or 0) + 0 }
    if max(part[1], part[2], part[3], part[4]) > MAX_SAFE then return nil end
    change[#change + 1], at = part, last + 1
  end
  return change
end
local limits = {}
for place = 1, #KEYS - 1 do
  local text, expiresAtUs, change = ARGV[3 * place], integerAt(3 * place + 1), parseChange(ARGV[3 * place + 2])
  local limit, last = parseLimit(text, 1)
  if not limit or last ~= #text or not expiresAtUs or not change then return refuse('a settlement', text) end
  limit.expiresAtUs, limit.change = expiresAtUs, change
  limits[place] = limit
end
local function returnTail(state, limit, part)
  local tatUs, fraction, tokenUnits, drainUnits, capacityUnits = unpack('<ddddd', state)
  local nextUs, nextFraction, endUs, endFraction = part[1], part[2], part[3], part[4]
  if tokenUnits ~= limit[2] or drainUnits ~= limit[3] then return state end
  if tatUs ~= endUs or fraction ~= endFraction then return state end
  if nextUs > endUs or (nextUs == endUs and nextFraction >= endFraction) then return state end
  if nextUs < nowUs then nextUs, nextFraction = nowUs, 0 end
  return pack('<ddddd', nextUs, nextFraction, tokenUnits, drainUnits, capacityUnits)
end
local function decideAlone(state, limit, cost)
  size = 2
  return limit.decide(state, limit, cost, nowUs)
end
local function fittingCost(state, limit, cost)
  if decideAlone(state, limit, cost) then return cost end
  local low, high = 0, cost
  while high - low > 1 do
    local middle = low + floor((high - low) / 2)
    if decideAlone(state, limit, middle) then low = middle else high = middle end
  end
  return low
end
local function settleOne(state, limit)
  local change = limit.change
  if decideAlone(state, limit, 0) == nil then return FAULT, false end
  if change.charge then
    local charged = fittingCost(state, limit, change.charge)
    if charged == 0 then return 0, false end
    local _, resetAfterUs, spent = decideAlone(state, limit, charged)
    return charged, spent or false, resetAfterUs
  end
  if nowUs > limit.expiresAtUs then return EXPIRED, false end
  if not state then return 0, false end
  local left = state
  for at = 1, #change do
    local part = change[at]
    if change.verb == 'refund' then
      left = refundOf(limit.decide)(left, limit, part[1], part[2], part[3])
    else
      left = returnTail(left, limit, part)
    end
  end
  if left == state then return 0, false end
  local _, resetAfterUs = decideAlone(left, limit, 0)
  return 0, left, resetAfterUs
end
local known = pcall('GET', KEYS[1])
if known then
  local done = {}
  if type(known) == 'string' then
    for number in string.gmatch(known, '%-?%d+') do done[#done + 1] = tonumber(number) end
  end
  if #done ~= #limits then return refuse('what was settled', #done) end
  return done
end
local done, kept, lives = {}, {}, {}
for place = 1, #limits do
  local state = pcall('GET', KEYS[place + 1])
  if state and not isState(state, limits[place]) then
    done[place] = FAULT
  else
    done[place], kept[place], lives[place] = settleOne(state or nil, limits[place])
  end
end
for place = 1, #limits do
  if done[place] == FAULT then return done end
end
local texts = {}
for place = 1, #limits do texts[place] = string.format('%.0f', done[place]) end
call('SET', KEYS[1], table.concat(texts, ' '), 'PX', lifeMs)
for place = 1, #limits do
  if kept[place] then
    if lives[place] > 0 then keep(KEYS[place + 1], kept[place], lives[place]) else call('DEL', KEYS[place + 1]) end
  end
end
return done
`;

/** The twins by file: what decides, what gives refunds, and what leases. */
export const TWINS: Readonly<Record<string, Readonly<Record<'decide' | 'refund' | 'lease', string>>>> = {
  'bucket/bucket.lua': {
    decide: `\
local function settleBucket(tatUs, fraction, numbers, cost, nowUs)
  local tokenUnits, drainUnits, capacityUnits = numbers[2], numbers[3], numbers[4]
  local waitUs = tatUs - nowUs
  if cost > 0 and cost <= numbers[1] then
    local costUnits = cost * tokenUnits
    local leadUs = floor((capacityUnits - costUnits - fraction) / drainUnits)
    if waitUs <= leadUs then
      local owedUnits = fraction + costUnits
      local owedUs = floor(owedUnits / drainUnits)
      local spentTatUs = tatUs + owedUs
      local spentFraction = owedUnits - owedUs * drainUnits
      local resetAfterUs = spentTatUs - nowUs
      if spentFraction > 0 then resetAfterUs = resetAfterUs + 1 end
      return true, resetAfterUs, pack('<ddddd', spentTatUs, spentFraction, tokenUnits, drainUnits, capacityUnits)
    end
  end
  local drainedUs = waitUs
  if fraction > 0 then drainedUs = waitUs + 1 end
  return cost == 0, drainedUs
end
local function settleUnderNewRate(tatUs, fraction, oldTokenUnits, oldDrainUnits, oldCapacityUnits, numbers, cost, nowUs)
  local min = math.min
  local limit, tokenUnits, drainUnits, capacityUnits = numbers[1], numbers[2], numbers[3], numbers[4]
  local function convertDebt()
    local oldUnits = (tatUs - nowUs) * oldDrainUnits + fraction
    local tokens = floor(oldUnits / oldTokenUnits)
    local restUnits = oldUnits - tokens * oldTokenUnits
    local product = restUnits * tokenUnits
    local rest
    if product + oldTokenUnits <= MAX_SAFE then
      rest = ceil(product / oldTokenUnits)
    else
      rest = min(tokenUnits, ceil((restUnits / oldTokenUnits) * tokenUnits) + 2)
    end
    local mostUnits = min(MAX_SAFE, MAX_TIME_US * drainUnits)
    local units = tokens * tokenUnits + rest
    if units > mostUnits then return math.huge end
    return units
  end
  local function awaitOldDebt()
    local fitsUs = floor((limit * oldTokenUnits - fraction) / oldDrainUnits)
    local clearUs = max(0, tatUs - nowUs - fitsUs)
    return cost == 0, clearUs + ceil((limit * tokenUnits) / drainUnits)
  end
  local countableUs = floor((MAX_SAFE - fraction) / oldDrainUnits)
  local emptied
  if tatUs - nowUs > countableUs then
    local wholeUs = floor(oldCapacityUnits / oldDrainUnits)
    tatUs, fraction = nowUs + wholeUs, oldCapacityUnits - wholeUs * oldDrainUnits
    emptied = pack('<ddddd', tatUs, fraction, oldTokenUnits, oldDrainUnits, oldCapacityUnits)
  end
  local debtUnits = convertDebt()
  local slower = drainUnits / tokenUnits < oldDrainUnits / oldTokenUnits
  if debtUnits > capacityUnits and (slower or debtUnits == math.huge) then
    local allowed, resetAfterUs = awaitOldDebt()
    return allowed, resetAfterUs, nil, emptied
  end
  local wholeUs = floor(debtUnits / drainUnits)
  local carriedTatUs, carriedFraction = nowUs + wholeUs, debtUnits - wholeUs * drainUnits
  local allowed, resetAfterUs, spent = settleBucket(carriedTatUs, carriedFraction, numbers, cost, nowUs)
  return allowed, resetAfterUs, spent,
    pack('<ddddd', carriedTatUs, carriedFraction, tokenUnits, drainUnits, max(capacityUnits, debtUnits))
end
local function decideBucket(state, numbers, cost, nowUs)
  if not state then return settleBucket(nowUs, 0, numbers, cost, nowUs) end
  local tatUs, fraction, tokenUnits, drainUnits, capacityUnits = unpack('<ddddd', state)
  if tatUs < nowUs then return settleBucket(nowUs, 0, numbers, cost, nowUs) end
  answer[size + 1], answer[size + 2] = tatUs, fraction
  size = size + 2
  local sameRate = drainUnits == numbers[3] and tokenUnits == numbers[2]
  if not (sameRate and capacityUnits == numbers[4]) then
    answer[size + 1], answer[size + 2], answer[size + 3] = tokenUnits, drainUnits, capacityUnits
    size = size + 3
  end
  local emptied
  if tatUs - nowUs > TOLERATED_STEP_US then
    local fullUs = ceil(capacityUnits / drainUnits)
    if tatUs - nowUs - fullUs > max(fullUs, TOLERATED_STEP_US) then
      local wholeUs = floor(capacityUnits / drainUnits)
      tatUs, fraction = nowUs + wholeUs, capacityUnits - wholeUs * drainUnits
      emptied = pack('<ddddd', tatUs, fraction, tokenUnits, drainUnits, capacityUnits)
    end
  end
  if sameRate and not emptied then return settleBucket(tatUs, fraction, numbers, cost, nowUs) end
  local allowed, resetAfterUs, spent, carried
  if sameRate then
    allowed, resetAfterUs, spent = settleBucket(tatUs, fraction, numbers, cost, nowUs)
  else
    allowed, resetAfterUs, spent, carried =
      settleUnderNewRate(tatUs, fraction, tokenUnits, drainUnits, capacityUnits, numbers, cost, nowUs)
  end
  return allowed, resetAfterUs, spent, carried or emptied
end
`,
    refund: `\
local function refundBucket(state, numbers, cost, reservedAtUs)
  local tatUs, fraction, tokenUnits, drainUnits, capacityUnits = unpack('<ddddd', state)
  if nowUs < reservedAtUs then return state end
  if tokenUnits ~= numbers[2] or drainUnits ~= numbers[3] then return state end
  local creditUnits = cost * tokenUnits - (nowUs - reservedAtUs) * drainUnits
  if creditUnits <= 0 then return state end
  local creditUs = floor(creditUnits / drainUnits)
  local leftFraction = fraction - (creditUnits - creditUs * drainUnits)
  if leftFraction < 0 then creditUs, leftFraction = creditUs + 1, leftFraction + drainUnits end
  return pack('<ddddd', tatUs - creditUs, leftFraction, tokenUnits, drainUnits, capacityUnits)
end
`,
    lease: `\
local function leftInBucket(bucket, limit)
  local tatUs, fraction = nowUs, 0
  if bucket then tatUs, fraction = unpack('<dd', bucket) end
  if tatUs < nowUs then tatUs, fraction = nowUs, 0 end
  local tokenUnits, drainUnits, capacityUnits = limit[2], limit[3], limit[4]
  local waitUs = tatUs - nowUs
  if waitUs > floor((capacityUnits - fraction) / drainUnits) then return 0 end
  return floor((capacityUnits - waitUs * drainUnits - fraction) / tokenUnits)
end
local function roomInBucket(state, limit)
  local _, _, _, carried = limit.decide(state, limit, 0, nowUs)
  local bucket = carried or state
  if bucket then
    local tatUs, _, tokenUnits, drainUnits = unpack('<dddd', bucket)
    if tatUs >= nowUs and (tokenUnits ~= limit[2] or drainUnits ~= limit[3]) then return 0 end
  end
  return leftInBucket(bucket, limit)
end
local function chargeBucket(state, limit, tokens)
  local _, resetAfterUs, spent = limit.decide(state, limit, tokens, nowUs)
  if not spent then return nil end
  local endUs, endFraction = unpack('<dd', spent)
  return spent, resetAfterUs, endUs, endFraction
end
local function takeBackBucket(state, limit, nextUs, nextFraction, endUs, endFraction)
  local tatUs, fraction, tokenUnits, drainUnits, capacityUnits = unpack('<ddddd', state)
  if tatUs ~= endUs or fraction ~= endFraction then return state end
  if tokenUnits ~= limit[2] or drainUnits ~= limit[3] then return state end
  if nextUs > endUs or (nextUs == endUs and nextFraction >= endFraction) then return state end
  if nextUs < nowUs then nextUs, nextFraction = nowUs, 0 end
  return pack('<ddddd', nextUs, nextFraction, tokenUnits, drainUnits, capacityUnits)
end
`,
  },
  'token-bucket/token-bucket.lua': {
    decide: `\
local decideTokenBucket = decideBucket
`,
    refund: `\
local refundTokenBucket = refundBucket
`,
    lease: `\
local roomInTokenBucket, chargeTokenBucket, takeBackTokenBucket = roomInBucket, chargeBucket, takeBackBucket
`,
  },
  'leaky-bucket/leaky-bucket.lua': {
    decide: `\
local decideLeakyBucket = decideBucket
`,
    refund: `\
local refundLeakyBucket = refundBucket
`,
    lease: `\
local roomInLeakyBucket, chargeLeakyBucket, takeBackLeakyBucket = roomInBucket, chargeBucket, takeBackBucket
`,
  },
  'window-lease.lua': {
    decide: `\
`,
    refund: `\
`,
    lease: `\
local function chargeWindow(state, limit, tokens)
  local _, resetAfterUs, spent = limit.decide(state, limit, tokens, nowUs)
  return spent, resetAfterUs, nowUs + resetAfterUs, 0
end
`,
  },
  'fixed-window/fixed-window.lua': {
    decide: `\
local function decideFixedWindow(state, numbers, cost, nowUs)
  local limit, windowUs, offsetUs = numbers[1], numbers[2], numbers[3]
  local currentUs = floor((nowUs - offsetUs) / windowUs) * windowUs + offsetUs
  local startUs, count, carried = currentUs, 0, nil
  if state then
    local storedUs, stored = unpack('<dd', state)
    if storedUs >= currentUs then
      answer[size + 1], answer[size + 2] = storedUs, stored
      size = size + 2
      count = stored
      if storedUs - nowUs > max(windowUs, TOLERATED_STEP_US) then
        carried = pack('<dd', currentUs, stored)
      else
        startUs = storedUs
      end
    end
  end
  local endUs = startUs + windowUs - nowUs
  local fits = cost <= limit - count
  local after = count
  if fits then after = count + cost end
  local resetAfterUs = 0
  if after > 0 then resetAfterUs = endUs end
  local spent
  if fits and cost > 0 then spent = pack('<dd', startUs, after) end
  return fits or cost == 0, resetAfterUs, spent, carried
end
`,
    refund: `\
local function refundFixedWindow(state, numbers, cost, _, absentAtUs)
  local startUs, count = unpack('<dd', state)
  if startUs ~= absentAtUs - numbers[2] or count < cost then return state end
  return pack('<dd', startUs, count - cost)
end
`,
    lease: `\
local function roomInFixedWindow(state, limit)
  local windowUs, offsetUs = limit[2], limit[3]
  if not state then return limit[1] end
  local startUs, count = unpack('<dd', state)
  if startUs < floor((nowUs - offsetUs) / windowUs) * windowUs + offsetUs then return limit[1] end
  return max(0, limit[1] - count)
end
local chargeFixedWindow = chargeWindow
local function takeBackFixedWindow(state, limit, unspent, _, absentAtUs)
  return refundFixedWindow(state, limit, unspent, nil, absentAtUs)
end
`,
  },
  'packed-list.lua': {
    decide: `\
local function listFirstAfter(list, recordBytes, atUs)
  local low, high = 0, (#list - 8) / recordBytes
  while low < high do
    local middle = floor((low + high) / 2)
    if (unpack('<d', list, middle * recordBytes + 9)) > atUs then high = middle else low = middle + 1 end
  end
  return low
end
`,
    refund: `\
`,
    lease: `\
`,
  },
  'sliding-window-log/sliding-window-log.lua': {
    decide: `\
local RECORD_BYTES = 16
local MAX_RUNNING_TOTAL = 4503599627370496
local function logStampAt(log, record)
  return (unpack('<d', log, record * RECORD_BYTES + 9))
end
local function logTotalAt(log, record)
  return (unpack('<d', log, record * RECORD_BYTES + 17))
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
  local total = logTotalAt(log, records - 1) - logTotalAt(log, listFirstAfter(log, RECORD_BYTES, nowUs - windowUs) - 1)
  return pack('<ddd', 0, ceil(nowUs / stepUs) * stepUs, total)
end
local function decideSlidingWindowLog(state, numbers, cost, nowUs)
  local limit, windowUs, stepUs = numbers[1], numbers[2], numbers[3]
  local carried = state and logAfterStepBack(state, windowUs, stepUs, nowUs)
  local log = carried or state or pack('<d', 0)
  local records = (#log - 8) / RECORD_BYTES
  local first = listFirstAfter(log, RECORD_BYTES, nowUs - windowUs)
  local before = logTotalAt(log, first - 1)
  local total = logTotalAt(log, records - 1) - before
  if not (total >= 0) then return nil end
  local newestUs = 0
  if first < records then newestUs = logStampAt(log, records - 1) end
  local fits = cost <= limit - total
  if first < records then
    answer[size + 1] = 0
    size = size + 1
    if not fits and cost <= limit then
      local freed = total + cost - limit
      answer[size + 1], answer[size + 2] = logFreedAtUs(log, records, before + freed), freed
      size = size + 2
    end
    answer[size + 1], answer[size + 2] = newestUs, total
    size = size + 2
  end
  if fits and cost > 0 then
    local stampUs = max(newestUs, ceil(nowUs / stepUs) * stepUs)
    return true, stampUs + windowUs - nowUs, logAppend(log, records, first, stampUs, cost), carried
  end
  local resetAfterUs = 0
  if first < records then resetAfterUs = newestUs + windowUs - nowUs end
  return cost == 0, resetAfterUs, nil, carried
end
`,
    refund: `\
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
`,
    lease: `\
local function seeLog(state, limit)
  local windowUs = limit[2]
  local carried = state and logAfterStepBack(state, windowUs, limit[3], nowUs)
  local log = carried or state or pack('<d', 0)
  local records = (#log - 8) / RECORD_BYTES
  local first = listFirstAfter(log, RECORD_BYTES, nowUs - windowUs)
  return log, records, first, max(0, limit[1] - (logTotalAt(log, records - 1) - logTotalAt(log, first - 1)))
end
local function roomInSlidingWindowLog(state, limit)
  local _, _, _, left = seeLog(state, limit)
  return left
end
local function chargeSlidingWindowLog(state, limit, tokens)
  local windowUs, stepUs = limit[2], limit[3]
  local log, records, first, left = seeLog(state, limit)
  if tokens > left then return nil end
  local newestUs = 0
  if first < records then newestUs = logStampAt(log, records - 1) end
  local endUs = nowUs + math.min(1000000, floor(windowUs / 50))
  local stampUs = max(newestUs, ceil(endUs / stepUs) * stepUs)
  local absentAtUs = stampUs + windowUs
  return logAppend(log, records, first, stampUs, tokens), absentAtUs - nowUs, absentAtUs, 0
end
local function takeBackSlidingWindowLog(state, limit, unspent, _, absentAtUs)
  return refundSlidingWindowLog(state, limit, unspent, nil, absentAtUs)
end
`,
  },
  'sliding-window-counter/sliding-window-counter.lua': {
    decide: `\
local function decideSlidingWindowCounter(state, numbers, cost, nowUs)
  local limit, windowUs, tickUs = numbers[1], numbers[2], numbers[3]
  local index, current, previous = floor(nowUs / windowUs), 0, 0
  local carried
  if state then
    local storedIndex, storedCurrent, storedPrevious = unpack('<ddd', state)
    if storedIndex >= index - 1 then
      answer[size + 1], answer[size + 2], answer[size + 3] = storedIndex, storedCurrent, storedPrevious
      size = size + 3
    end
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
  local spare, room = limit - current, 0
  if spare > 0 then
    if previous == 0 then
      room = spare
    elseif leftTicks <= floor((spare * windowTicks) / previous) then
      room = spare - ceil((previous * leftTicks) / windowTicks)
    end
  end
  local fits = cost <= room
  local after, spent = current, nil
  if fits then after = current + cost end
  if fits and cost > 0 then spent = pack('<ddd', index, after, previous) end
  local resetAfterUs = 0
  if after > 0 then
    resetAfterUs = (index + 2) * windowUs - nowUs
  elseif previous > 0 then
    resetAfterUs = (index + 1) * windowUs - nowUs
  end
  return fits, resetAfterUs, spent, carried
end
`,
    refund: `\
local function refundSlidingWindowCounter(state, numbers, cost, _, absentAtUs)
  local index, current, previous = unpack('<ddd', state)
  local reservedIndex = absentAtUs / numbers[2] - 2
  if index == reservedIndex and current >= cost then return pack('<ddd', index, current - cost, previous) end
  if index == reservedIndex + 1 and previous >= cost then return pack('<ddd', index, current, previous - cost) end
  return state
end
`,
    lease: `\
local function roomInSlidingWindowCounter(state, limit)
  local low, high = 0, limit[1]
  while low < high do
    local middle = ceil((low + high) / 2)
    local fits = limit.decide(state, limit, middle, nowUs)
    if fits then low = middle else high = middle - 1 end
  end
  return low
end
local chargeSlidingWindowCounter = chargeWindow
local function takeBackSlidingWindowCounter(state, limit, unspent, _, absentAtUs)
  return refundSlidingWindowCounter(state, limit, unspent, nil, absentAtUs)
end
`,
  },
  'calendar-quota/calendar-quota.lua': {
    decide: `\
local function decideCalendarQuota(state, numbers, cost, nowUs)
  local limit, startUs, endUs = numbers[1], numbers[2], numbers[3]
  local lastUs = numbers[4]
  if nowUs < startUs or nowUs >= lastUs then return nil end
  if nowUs >= endUs then startUs, endUs = endUs, lastUs end
  local used, carried = 0, nil
  if state then
    local storedUs, stored = unpack('<dd', state)
    if storedUs >= startUs then
      answer[size + 1], answer[size + 2] = storedUs, stored
      size = size + 2
      used = stored
      if storedUs - nowUs > (endUs - startUs) / 2 then
        carried = pack('<dd', startUs, stored)
      else
        if storedUs >= lastUs then return nil end
        if storedUs >= endUs then endUs = lastUs end
        startUs = storedUs
      end
    end
  end
  local fits = cost <= limit - used
  local total = used
  if fits then total = used + cost end
  local resetAfterUs = 0
  if total > 0 then resetAfterUs = endUs - nowUs end
  local spent
  if fits and cost > 0 then spent = pack('<dd', startUs, total) end
  return fits or cost == 0, resetAfterUs, spent, carried
end
`,
    refund: `\
local function refundCalendarQuota(state, numbers, cost, _, absentAtUs)
  local startUs, used = unpack('<dd', state)
  local endUs = numbers[3]
  if startUs >= endUs then endUs = numbers[4] end
  if startUs < numbers[2] or endUs ~= absentAtUs or used < cost then return state end
  return pack('<dd', startUs, used - cost)
end
`,
    lease: `\
`,
  },
  'concurrency/concurrency.lua': {
    decide: `\
local SLOT_BYTES = 40
local function slotEndAt(slots, slot)
  return (unpack('<d', slots, slot * SLOT_BYTES + 9))
end
local function slotUnitsAt(slots, slot)
  return (unpack('<d', slots, slot * SLOT_BYTES + 41))
end
local function slotUnitsFrom(slots, first)
  local units = unpack('<d', slots)
  for slot = 0, first - 1 do units = units - slotUnitsAt(slots, slot) end
  return units
end
local function slotOf(slots, first, numbers)
  if numbers[3] == 0 and numbers[4] == 0 then return nil end
  local id, from = pack('<dd', numbers[3], numbers[4]), first * SLOT_BYTES + 25
  while true do
    local at = string.find(slots, id, from, true)
    if not at then return nil end
    if (at - 25) % SLOT_BYTES == 0 then return (at - 25) / SLOT_BYTES end
    from = at + 1
  end
end
local function slotsLive(slots, first, own)
  local units = slotUnitsFrom(slots, first)
  if not own then return pack('<d', units) .. slots:sub(first * SLOT_BYTES + 9) end
  return pack('<d', units - slotUnitsAt(slots, own))
    .. slots:sub(first * SLOT_BYTES + 9, own * SLOT_BYTES + 8)
    .. slots:sub((own + 1) * SLOT_BYTES + 9)
end
local function slotsInsert(slots, endUs, rest, units)
  local at = listFirstAfter(slots, SLOT_BYTES, endUs) * SLOT_BYTES + 8
  return pack('<d', unpack('<d', slots) + units)
    .. slots:sub(9, at) .. pack('<d', endUs) .. rest .. pack('<d', units) .. slots:sub(at + 1)
end
local function slotsAfterStepBack(slots, count, nowUs)
  if count == 0 then return nil end
  local endUs, holdUs = unpack('<dd', slots, (count - 1) * SLOT_BYTES + 9)
  if endUs - holdUs - nowUs <= max(holdUs, TOLERATED_STEP_US) then return nil end
  local moved = pack('<d', 0)
  for slot = listFirstAfter(slots, SLOT_BYTES, nowUs), count - 1 do
    local from = slot * SLOT_BYTES + 9
    endUs, holdUs = unpack('<dd', slots, from)
    moved = slotsInsert(moved, math.min(endUs, nowUs + holdUs), slots:sub(from + 8, from + 31), slotUnitsAt(slots, slot))
  end
  return moved
end
local function slotTell(slots, slot, high, low, units)
  local endUs, holdUs = unpack('<dd', slots, slot * SLOT_BYTES + 9)
  answer[size + 1], answer[size + 2], answer[size + 3] = endUs, holdUs, high
  answer[size + 4], answer[size + 5] = low, units
  size = size + 5
end
local function decideConcurrency(state, numbers, cost, nowUs)
  local limit, holdUs = numbers[1], numbers[2]
  local count = state and (#state - 8) / SLOT_BYTES or 0
  local carried = state and slotsAfterStepBack(state, count, nowUs)
  local slots = carried or state or pack('<d', 0)
  count = (#slots - 8) / SLOT_BYTES
  local first = listFirstAfter(slots, SLOT_BYTES, nowUs)
  local used = slotUnitsFrom(slots, first)
  if not (used >= 0) then return nil end
  local own = slotOf(slots, first, numbers)
  local fits = own or cost <= limit - used
  if first < count then
    answer[size + 1] = used
    size = size + 1
    local newest = count - 1
    if own then
      slotTell(slots, own, numbers[3], numbers[4], slotUnitsAt(slots, own))
    elseif not fits and cost <= limit then
      local slot = first
      local freed = slotUnitsAt(slots, slot)
      while freed < used + cost - limit and slot < newest do
        slot = slot + 1
        freed = freed + slotUnitsAt(slots, slot)
      end
      slotTell(slots, slot, 0, 0, freed)
    end
    if own ~= newest then slotTell(slots, newest, 0, 0, 0) end
  end
  if fits and cost > 0 then
    local takenAtUs, units = nowUs, cost
    if first < count then
      local newestEndUs, newestHoldUs = unpack('<dd', slots, (count - 1) * SLOT_BYTES + 9)
      takenAtUs = max(nowUs, newestEndUs - newestHoldUs)
    end
    local endUs = takenAtUs + holdUs
    if own then
      local ownEndUs, ownHoldUs = unpack('<dd', slots, own * SLOT_BYTES + 9)
      if ownEndUs > endUs then endUs, holdUs = ownEndUs, ownHoldUs end
      units = slotUnitsAt(slots, own)
    end
    local rest = pack('<ddd', holdUs, numbers[3], numbers[4])
    local spent = slotsInsert(slotsLive(slots, first, own), endUs, rest, units)
    return true, slotEndAt(spent, (#spent - 8) / SLOT_BYTES - 1) - nowUs, spent, carried, own
  end
  local endsInUs = 0
  if first < count then endsInUs = slotEndAt(slots, count - 1) - nowUs end
  return cost == 0, endsInUs, nil, carried, own
end
`,
    refund: `\
local function refundConcurrency(state, numbers, cost, reservedAtUs, absentAtUs)
  local count = (#state - 8) / SLOT_BYTES
  local rest, own = pack('<ddd', numbers[2], numbers[3], numbers[4]), nil
  if reservedAtUs == 0 then
    own = slotOf(state, 0, numbers)
  else
    for slot = 0, count - 1 do
      local from = slot * SLOT_BYTES + 9
      local isTaken = slotEndAt(state, slot) == absentAtUs and slotUnitsAt(state, slot) == cost
      if isTaken and state:sub(from + 8, from + 31) == rest then own = slot end
    end
  end
  if not own then return state end
  if count == 1 then return nil end
  return slotsLive(state, 0, own)
end
`,
    lease: `\
`,
  },
};

/** The files of each algorithm, in the order of use: a local function has to stand before its callers. */
export const TWINS_OF: Readonly<Record<string, readonly string[]>> = {
  tokenBucket: ['bucket/bucket.lua', 'token-bucket/token-bucket.lua'],
  leakyBucket: ['bucket/bucket.lua', 'leaky-bucket/leaky-bucket.lua'],
  fixedWindow: ['window-lease.lua', 'fixed-window/fixed-window.lua'],
  slidingWindowLog: ['packed-list.lua', 'sliding-window-log/sliding-window-log.lua'],
  slidingWindowCounter: ['window-lease.lua', 'sliding-window-counter/sliding-window-counter.lua'],
  calendarQuota: ['calendar-quota/calendar-quota.lua'],
  concurrency: ['packed-list.lua', 'concurrency/concurrency.lua'],
};
