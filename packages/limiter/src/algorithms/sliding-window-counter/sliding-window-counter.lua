-- Twin of sliding-window-counter.ts. The state: index, current, previous.
--@needs ../window-lease.lua
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

--@refund
local function refundSlidingWindowCounter(state, numbers, cost, _, absentAtUs)
  local index, current, previous = unpack('<ddd', state)
  local reservedIndex = absentAtUs / numbers[2] - 2
  if index == reservedIndex and current >= cost then return pack('<ddd', index, current - cost, previous) end
  if index == reservedIndex + 1 and previous >= cost then return pack('<ddd', index, current, previous - cost) end
  return state
end

--@lease
local function roomInSlidingWindowCounter(state, limit)
  -- What fits, found by halves: the decision itself is the only one that knows.
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
