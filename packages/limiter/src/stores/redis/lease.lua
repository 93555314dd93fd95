-- Twin of stores/local/lease-grant.ts: charges a lease to a token bucket, or takes the unused end of one back.
--
-- KEYS: the state. ARGV: the time in microseconds ('' asks the server), 'lease' or 'return', and the limit as in decide.lua.
-- For a lease: the tokens wanted. The answer: tokens granted, tokens left, the moment at which the lease ends (microsecond
-- and fraction), the time. For a return: where the unused part begins and ends (microsecond and fraction each). The answer:
-- 1 if it was taken back.
local FAULT = -1

local function integerAt(place)
  local text = ARGV[place]
  if not text or text == '' or find(text, '%D') then return nil end
  local number = tonumber(text)
  if number > MAX_SAFE then return nil end
  return number
end

local limit, last = parseLimit(ARGV[3] or '', 1)
if not limit or last ~= #ARGV[3] or limit.decide ~= decideTokenBucket then return refuse('a limit', ARGV[3]) end
local state = redis.pcall('GET', KEYS[1])
if state and not isState(state, limit) then return { FAULT, 0, 0, 0, nowUs } end

if ARGV[2] == 'lease' then
  local want = integerAt(4)
  if not want or want < 1 then return refuse('the tokens wanted', ARGV[4]) end
  local _, available = limit.decide(state, limit.numbers, 0, nowUs)
  local tokens = min(want, floor(available / 4))
  if available * 4 >= limit.numbers[1] * 3 then tokens = max(tokens, min(4 * want, floor(available / 20))) end
  if tokens < 1 then return { 0, available, 0, 0, nowUs } end
  local _, left, _, resetAfterUs, _, spent = limit.decide(state, limit.numbers, tokens, nowUs)
  if not spent then return { 0, available, 0, 0, nowUs } end
  keep(KEYS[1], spent, resetAfterUs)
  local endUs, endFraction = unpack('<dd', spent)
  return { tokens, left, endUs, endFraction, nowUs }
end

if ARGV[2] ~= 'return' then return refuse('the verb', ARGV[2]) end
local nextUs, nextFraction, endUs, endFraction = integerAt(4), integerAt(5), integerAt(6), integerAt(7)
if not (nextUs and nextFraction and endUs and endFraction) then return refuse('a lease', ARGV[4]) end
if not state then return { 0 } end
local tatUs, fraction, tokenUnits, drainUnits, capacityUnits = unpack('<ddddd', state)
-- Something was charged behind the lease, or under another rate: its slots pass by themselves.
if tatUs ~= endUs or fraction ~= endFraction then return { 0 } end
if tokenUnits ~= limit.numbers[2] or drainUnits ~= limit.numbers[3] then return { 0 } end
if nextUs > endUs or (nextUs == endUs and nextFraction >= endFraction) then return { 0 } end
if nextUs < nowUs then nextUs, nextFraction = nowUs, 0 end
local returned = packBucket(nextUs, nextFraction, tokenUnits, drainUnits, capacityUnits)
local _, _, _, resetAfterUs = limit.decide(returned, limit.numbers, 0, nowUs)
if resetAfterUs > 0 then
  keep(KEYS[1], returned, resetAfterUs)
else
  redis.call('DEL', KEYS[1])
end
return { 1 }
