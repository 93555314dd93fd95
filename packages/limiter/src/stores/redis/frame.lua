-- What both scripts share: the list of algorithms, how arguments are read, what time it is, and how a state is kept.
-- Nothing is written before every argument has been checked: a script that fails is not rolled back.
local ALGORITHMS = {
  { decide = decideTokenBucket, bytes = 32 },
  { decide = decideLeakyBucket, bytes = 32 },
  { decide = decideFixedWindow, bytes = 16, offset = true },
  { decide = decideSlidingWindowLog },
  { decide = decideSlidingWindowCounter, bytes = 24 },
}

local function refuse(what, value)
  return redis.error_reply('SPILLGATE ' .. what .. ' is ' .. tostring(value) .. '; expected digits up to 2^53 - 1')
end

-- Digits only: tonumber alone would take 'nan', 'inf' and '0x10'.
local function integer(text)
  if not text or text == '' or text:find('%D') then return nil end
  local number = tonumber(text)
  if number > MAX_SAFE then return nil end
  return number
end

local function serverTimeUs()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- A clock of the caller's own may stand still or step back while the server's runs on: its states stay an hour longer.
local FOREIGN_CLOCK_GRACE_MS = 3600000

local nowUs, graceMs
if ARGV[1] == '' then
  nowUs, graceMs = serverTimeUs(), 0
else
  nowUs, graceMs = integer(ARGV[1]), FOREIGN_CLOCK_GRACE_MS
end
if not nowUs or nowUs > MAX_TIME_US then return refuse('the time', ARGV[1]) end

local function isState(state, bytes)
  if type(state) ~= 'string' then return false end
  if bytes then return #state == bytes end
  return #state >= 24 and #state % 16 == 8
end

local function keep(key, state, resetAfterUs)
  -- Rounded up, so that no key expires while its state still decides anything.
  redis.call('SET', key, state, 'PX', string.format('%.0f', max(1, ceil(resetAfterUs / 1000) + graceMs)))
end
