-- Twin of fixed-window.ts. The state: startUs, count.
--@needs ../window-lease.lua
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

--@refund
-- A count belongs to its window; one that is over took the reservation with it.
local function refundFixedWindow(state, numbers, cost, _, absentAtUs)
  local startUs, count = unpack('<dd', state)
  if startUs ~= absentAtUs - numbers[2] or count < cost then return state end
  return pack('<dd', startUs, count - cost)
end

--@lease
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
