-- Twin of sliding-window-counter.ts. The state: index, current, previous.
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

--@refund
local function refundSlidingWindowCounter(state, numbers, cost, _, absentAtUs)
  local index, current, previous = unpack('<ddd', state)
  local reservedIndex = absentAtUs / numbers[2] - 2
  if index == reservedIndex and current >= cost then return pack('<ddd', index, current - cost, previous) end
  if index == reservedIndex + 1 and previous >= cost then return pack('<ddd', index, current, previous - cost) end
  return state
end
