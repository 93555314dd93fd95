-- Twin of bucket.ts. The state: tatUs, fraction, tokenUnits, drainUnits, capacityUnits.
-- Every decide function answers: allowed, remaining, retryAfterUs, resetAfterUs, delayUs, spent, carried.

local function packBucket(tatUs, fraction, tokenUnits, drainUnits, capacityUnits)
  return pack('<ddddd', tatUs, fraction, tokenUnits, drainUnits, capacityUnits)
end

-- The answer that leaves the debt as it is: a look (retryAfterUs 0) or a denial.
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
  return packBucket(tatUs - creditUs, leftFraction, tokenUnits, drainUnits, capacityUnits)
end
