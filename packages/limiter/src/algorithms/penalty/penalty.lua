-- Twin of penalty.ts. The state: until when the key is blocked, 0 where it is not, then the moments of the denials that
-- count. `nil` of both functions: what the key holds is no such state.
local function penaltyLeft(state, limit, nowUs)
  local untilUs = unpack('<d', state)
  if not (untilUs >= 0 and untilUs <= MAX_TIME_US * 2 and untilUs % 1 == 0) then return nil end
  local leftUs = untilUs - nowUs
  if leftUs <= 0 then return 0 end
  if leftUs - limit.forUs > max(limit.forUs, TOLERATED_STEP_US) then return limit.forUs end
  return leftUs
end

-- The state after one more denial, its life, and whether the key is blocked now.
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
