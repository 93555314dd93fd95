-- Twin of bucket.ts. The state: tatUs, fraction, tokenUnits, drainUnits, capacityUnits.
-- Every decide function answers: allowed, resetAfterUs, spent, carried. `resetAfterUs` is the life of `spent` where
-- that is set, else of `carried`. Nothing at all where the state is none of its own.

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

--@refund
-- credit = max(0, cost * interval - elapsed), in units.
local function refundBucket(state, numbers, cost, reservedAtUs)
  local tatUs, fraction, tokenUnits, drainUnits, capacityUnits = unpack('<ddddd', state)
  -- A clock that stepped back may have emptied the bucket since: nobody can tell what is left of the reservation.
  if nowUs < reservedAtUs then return state end
  -- Written under other numbers since: what the reservation weighs now cannot be told.
  if tokenUnits ~= numbers[2] or drainUnits ~= numbers[3] then return state end
  local creditUnits = cost * tokenUnits - (nowUs - reservedAtUs) * drainUnits
  if creditUnits <= 0 then return state end
  local creditUs = floor(creditUnits / drainUnits)
  local leftFraction = fraction - (creditUnits - creditUs * drainUnits)
  if leftFraction < 0 then creditUs, leftFraction = creditUs + 1, leftFraction + drainUnits end
  return pack('<ddddd', tatUs - creditUs, leftFraction, tokenUnits, drainUnits, capacityUnits)
end

--@lease
-- Twin of token-lease.ts. Tokens that a bucket under the limit's own numbers has left.
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
    -- An old debt that does not fit has to drain first.
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
  -- Something was charged behind the lease, or under another rate: its slots pass by themselves.
  if tatUs ~= endUs or fraction ~= endFraction then return state end
  if tokenUnits ~= limit[2] or drainUnits ~= limit[3] then return state end
  if nextUs > endUs or (nextUs == endUs and nextFraction >= endFraction) then return state end
  if nextUs < nowUs then nextUs, nextFraction = nowUs, 0 end
  return pack('<ddddd', nextUs, nextFraction, tokenUnits, drainUnits, capacityUnits)
end
