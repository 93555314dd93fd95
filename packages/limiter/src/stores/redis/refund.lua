-- Gives back what one check has spent here, because another server denied the same check. A reservation holds room back
-- from everybody else while it stands, so the full amount would be too much: the refund is aged, and never leaves more
-- than if the reservation had not happened.
--
-- ARGV: the time in microseconds ('' asks the server), the time of the reservation, its cost, and per limit: its text as in
-- decide.lua, and the moment at which the limit was to be as if never used. KEYS: one per limit. The answer is that of
-- decide.lua for a look, without the time.
local function integer(text)
  if not text or text == '' or find(text, '%D') then return nil end
  local number = tonumber(text)
  if number > MAX_SAFE then return nil end
  return number
end

local reservedAtUs, cost = integer(ARGV[2]), integer(ARGV[3])
if not (reservedAtUs and cost and #ARGV == 3 + 2 * #KEYS) then return refuse('a refund', #ARGV) end

-- credit = max(0, cost * interval - elapsed), in units.
local function refundBucket(state, numbers)
  local tatUs, fraction, tokenUnits, drainUnits = unpack('<dddd', state)
  -- Written under other numbers since: what the reservation weighs now cannot be told.
  if tokenUnits ~= numbers[2] or drainUnits ~= numbers[3] then return state end
  local creditUnits = cost * tokenUnits - max(0, nowUs - reservedAtUs) * drainUnits
  if creditUnits <= 0 then return state end
  local creditUs = floor(creditUnits / drainUnits)
  local leftFraction = fraction - (creditUnits - creditUs * drainUnits)
  if leftFraction < 0 then creditUs, leftFraction = creditUs + 1, leftFraction + drainUnits end
  return pack('<dddd', tatUs - creditUs, leftFraction, tokenUnits, drainUnits)
end

-- A count belongs to its window; one that is over took the reservation with it.
local function refundFixedWindow(state, numbers, absentAtUs)
  local startUs, count = unpack('<dd', state)
  if startUs ~= absentAtUs - numbers[2] or count < cost then return state end
  return pack('<dd', startUs, count - cost)
end

local function refundLog(state, numbers, absentAtUs)
  local records = (#state - 8) / RECORD_BYTES
  local place
  for at = 0, records - 1 do
    if logStampAt(state, at) == absentAtUs - numbers[2] then place = at end
  end
  if not place then return state end
  local own = logTotalAt(state, place) - logTotalAt(state, place - 1)
  if own < cost then return state end
  local parts = { state:sub(1, 8 + place * RECORD_BYTES) }
  -- A record of nothing would keep the limit from being as if never used.
  for at = own == cost and place + 1 or place, records - 1 do
    parts[#parts + 1] = pack('<dd', logStampAt(state, at), logTotalAt(state, at) - cost)
  end
  return table.concat(parts)
end

local function refundCounter(state, numbers, absentAtUs)
  local index, current, previous = unpack('<ddd', state)
  local reservedIndex = absentAtUs / numbers[2] - 2
  if index == reservedIndex and current >= cost then return pack('<ddd', index, current - cost, previous) end
  if index == reservedIndex + 1 and previous >= cost then return pack('<ddd', index, current, previous - cost) end
  return state
end

local REFUNDS = {
  [decideTokenBucket] = refundBucket,
  [decideLeakyBucket] = refundBucket,
  [decideFixedWindow] = refundFixedWindow,
  [decideSlidingWindowLog] = refundLog,
  [decideSlidingWindowCounter] = refundCounter,
}
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
  if not state or not isState(state, limit.bytes) then state = nil end
  local refunded = state and REFUNDS[limit.decide](state, limit.numbers, limit.absentAtUs)
  local allowed, remaining, retryAfterUs, resetAfterUs, delayUs = limit.decide(refunded, limit.numbers, 0, nowUs)
  if refunded ~= state then
    if resetAfterUs > 0 then keep(KEYS[place], refunded, resetAfterUs) else redis.call('DEL', KEYS[place]) end
  end
  local size = #answer
  answer[size + 1], answer[size + 2], answer[size + 3] = allowed and 1 or 0, remaining, retryAfterUs
  answer[size + 4], answer[size + 5] = resetAfterUs, delayUs
end
return answer
