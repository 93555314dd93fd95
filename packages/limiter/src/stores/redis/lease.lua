-- Twin of stores/local/lease-grant.ts: charges a lease to a token bucket, or takes the unused end of a bucket's virtual
-- time back. The script knows no algorithm but buckets.
--
-- KEYS: the state. ARGV: the time in microseconds ('' asks the server), 'lease' or 'return', and the limit as in
-- decide.lua. For a lease: the tokens wanted. The answer: tokens granted, tokens left, the moment at which the lease
-- ends (microsecond and fraction), the time. For a return: where the unused part begins and ends (microsecond and
-- fraction each). The answer: 1 if it was taken back.
local FAULT = -1

-- Tokens that a bucket under the limit's own numbers has left.
local function leftIn(bucket, limit)
  local tatUs, fraction = nowUs, 0
  if bucket then tatUs, fraction = unpack('<dd', bucket) end
  if tatUs < nowUs then tatUs, fraction = nowUs, 0 end
  local tokenUnits, drainUnits, capacityUnits = limit[2], limit[3], limit[4]
  local waitUs = tatUs - nowUs
  if waitUs > floor((capacityUnits - fraction) / drainUnits) then return 0 end
  return floor((capacityUnits - waitUs * drainUnits - fraction) / tokenUnits)
end

-- Tokens that a state has left.
local function available(state, limit)
  local _, _, _, carried = limit.decide(state, limit, 0, nowUs)
  local bucket = carried or state
  if bucket then
    local tatUs, _, tokenUnits, drainUnits = unpack('<dddd', bucket)
    -- An old debt that does not fit has to drain first.
    if tatUs >= nowUs and (tokenUnits ~= limit[2] or drainUnits ~= limit[3]) then return 0 end
  end
  return leftIn(bucket, limit)
end

local limit, last = parseLimit(ARGV[3] or '', 1)
if not limit or last ~= #ARGV[3] then return refuse('a limit', ARGV[3]) end
local state = pcall('GET', KEYS[1])
if state and not isState(state, limit) then return { FAULT, 0, 0, 0, nowUs } end

if ARGV[2] == 'lease' then
  local want = integerAt(4)
  if not want or want < 1 then return refuse('the tokens wanted', ARGV[4]) end
  local min = math.min
  local before = available(state, limit)
  local tokens = min(want, floor(before / 4))
  if before * 4 >= limit[1] * 3 then tokens = max(tokens, min(4 * want, floor(before / 20))) end
  if tokens < 1 then return { 0, before, 0, 0, nowUs } end
  local _, resetAfterUs, spent = limit.decide(state, limit, tokens, nowUs)
  if not spent then return { 0, before, 0, 0, nowUs } end
  keep(KEYS[1], spent, resetAfterUs)
  local endUs, endFraction = unpack('<dd', spent)
  return { tokens, leftIn(spent, limit), endUs, endFraction, nowUs }
end

if ARGV[2] ~= 'return' then return refuse('the verb', ARGV[2]) end
local nextUs, nextFraction, endUs, endFraction = integerAt(4), integerAt(5), integerAt(6), integerAt(7)
if not (nextUs and nextFraction and endUs and endFraction) then return refuse('a lease', ARGV[4]) end
if not state then return { 0 } end
local tatUs, fraction, tokenUnits, drainUnits, capacityUnits = unpack('<ddddd', state)
-- Something was charged behind the lease, or under another rate: its slots pass by themselves.
if tatUs ~= endUs or fraction ~= endFraction then return { 0 } end
if tokenUnits ~= limit[2] or drainUnits ~= limit[3] then return { 0 } end
if nextUs > endUs or (nextUs == endUs and nextFraction >= endFraction) then return { 0 } end
if nextUs < nowUs then nextUs, nextFraction = nowUs, 0 end
local returned = pack('<ddddd', nextUs, nextFraction, tokenUnits, drainUnits, capacityUnits)
local _, resetAfterUs = limit.decide(returned, limit, 0, nowUs)
if resetAfterUs > 0 then
  keep(KEYS[1], returned, resetAfterUs)
else
  call('DEL', KEYS[1])
end
return { 1 }
