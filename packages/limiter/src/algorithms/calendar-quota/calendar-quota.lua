-- Twin of calendar-quota.ts. The state: startUs, count. Numbers: the limit and three edges of periods around now,
-- because only the client knows the calendar. Where they do not suffice there is no answer.
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

--@refund
-- A count belongs to its period; one that is over took the reservation with it.
local function refundCalendarQuota(state, numbers, cost, _, absentAtUs)
  local startUs, used = unpack('<dd', state)
  local endUs = numbers[3]
  if startUs >= endUs then endUs = numbers[4] end
  if startUs < numbers[2] or endUs ~= absentAtUs or used < cost then return state end
  return pack('<dd', startUs, used - cost)
end
