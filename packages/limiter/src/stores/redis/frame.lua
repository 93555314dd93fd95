-- What all scripts share: what time it is, and how a limit is read. Nothing is written before every argument has been
-- checked: a script that fails is not rolled back.
local call, pcall, find = redis.call, redis.pcall, string.find
-- The algorithm's number, and its own. What the limit costs, where that is not what the call does, follows an '@'.
local LIMIT_PATTERN = '^ (%d+) (%d+) (%d+) (%d+) (%d+)(@?)'

local function refuse(what, value)
  return redis.error_reply('SPILLGATE ' .. what .. ' is ' .. tostring(value) .. '; expected digits up to 2^53 - 1')
end

-- A clock of the caller's own may stand still or step back while the server's runs on: its states stay an hour longer.
local FOREIGN_CLOCK_GRACE_MS = 3600000

local nowUs, graceMs
if ARGV[1] == '' then
  local time = call('TIME')
  nowUs, graceMs = time[1] * 1000000 + time[2], 0
-- Digits only, here and below: tonumber alone would take 'nan', 'inf' and '0x10'.
elseif ARGV[1] and not find(ARGV[1], '%D') then
  nowUs, graceMs = tonumber(ARGV[1]), FOREIGN_CLOCK_GRACE_MS
end
if not nowUs or nowUs > MAX_TIME_US then return refuse('the time', ARGV[1]) end

-- The limit that stands at this place of a text, and the place of its last letter; nil if none does. Its numbers come
-- first, so that the limit itself is what its twin takes for numbers.
local function parseLimit(text, from)
  local _, last, number, a, b, c, d, own = find(text, LIMIT_PATTERN, from)
  local decide, leastBytes, recordBytes, leastA, leastB, leastC, leastD
  --@algorithms
  if not decide then return nil end
  a, b, c, d = a + 0, b + 0, c + 0, d + 0
  if own == '' then
    own = false
  else
    _, last, own = find(text, '^(%d+)', last + 1)
    if not last or own + 0 > MAX_SAFE then return nil end
    own = own + 0
  end
  --@penalty
  local after, withinUs, forUs
  local _, blockEnd, count, within, length = find(text, '^!(%d+) (%d+) (%d+)', last + 1)
  if blockEnd then
    last, after, withinUs, forUs = blockEnd, count + 0, within + 0, length + 0
    if after < 1 or withinUs < 1 or forUs < 1 or max(after, withinUs, forUs) > MAX_TIME_US then return nil end
  end
  --@end
  if a < leastA or b < leastB or c < leastC or d < leastD or max(a, b, c, d) > MAX_SAFE then return nil end
  return {
    a, b, c, d,
    cost = own, decide = decide, leastBytes = leastBytes, recordBytes = recordBytes,
    state = false, allowed = false, resetAfterUs = 0, spent = false, carried = false,
    --@penalty
    after = after, withinUs = withinUs, forUs = forUs, penaltyAt = false, penalty = false, penaltyLifeUs = 0,
    --@end
  }, last
end

--@beside-decide
-- What a key of another type answers is a table without elements, and so no state either.
local function isState(state, limit)
  if limit.recordBytes == 0 then return #state == limit.leastBytes end
  return #state >= limit.leastBytes and (#state - limit.leastBytes) % limit.recordBytes == 0
end

local function keep(key, state, resetAfterUs)
  -- As in decide.lua.
  if nowUs + resetAfterUs > MAX_TIME_US then
    call('SET', key, state)
    return
  end
  call('SET', key, state, 'PX', max(1, ceil(resetAfterUs / 1000) + graceMs))
end

local function integerAt(place)
  local text = ARGV[place]
  if not text or text == '' or find(text, '%D') then return nil end
  local number = tonumber(text)
  if number > MAX_SAFE then return nil end
  return number
end
