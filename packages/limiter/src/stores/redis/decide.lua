-- One round trip for one or more decisions. Each decision reads all of its states, decides all of them, and writes all
-- or none. Nothing is written before every argument has been checked: a script that fails is not rolled back.
--
-- ARGV: the time in microseconds ('' asks the server), then one text per decision: verb ('check' or 'peek'), cost, and
-- per limit the algorithm's number and its four compiled numbers, with one space between. KEYS: one per limit, in the
-- same order. The answer: per limit allowed (1 or 0), remaining, retryAfterUs, resetAfterUs, delayUs; FAULT in the
-- first place says that a key holds something that is not a state.
--
-- The decisions of a call mostly ask the same of different keys. So each text is parsed once, and what came of it also
-- holds the verdicts of the decision under way: tables are what costs most, and the loop at the end makes none.
local find, tonumber = string.find, tonumber
local LIMIT_PATTERN = '^ (%d+) (%d+) (%d+) (%d+) (%d+)'
local MAX_LIMITS = 32
local FAULT = -1

-- The function that decides, and the length of its states in bytes; none where it varies.
local function algorithmOf(number)
  if number == '1' then return decideTokenBucket, 32 end
  if number == '2' then return decideLeakyBucket, 32 end
  if number == '3' then return decideFixedWindow, 16 end
  if number == '4' then return decideSlidingWindowLog end
  if number == '5' then return decideSlidingWindowCounter, 24 end
end

local function refuse(what, value)
  return redis.error_reply('SPILLGATE ' .. what .. ' is ' .. tostring(value) .. '; expected digits up to 2^53 - 1')
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
-- Digits only, here and below: tonumber alone would take 'nan', 'inf' and '0x10'.
elseif ARGV[1] and not find(ARGV[1], '%D') then
  nowUs, graceMs = tonumber(ARGV[1]), FOREIGN_CLOCK_GRACE_MS
end
if not nowUs or nowUs > MAX_TIME_US then return refuse('the time', ARGV[1]) end

-- The limit that stands at this place of a text, and the place of its last letter; nil if none does.
local function parseLimit(text, from)
  local _, last, number, a, b, c, d = find(text, LIMIT_PATTERN, from)
  local decide, bytes = algorithmOf(number)
  if not decide then return nil end
  a, b, c, d = tonumber(a), tonumber(b), tonumber(c), tonumber(d)
  if a < 1 or b < 1 or (c < 1 and decide ~= decideFixedWindow) or max(a, b, c, d) > MAX_SAFE then return nil end
  return {
    decide = decide, bytes = bytes, numbers = { a, b, c, d },
    state = false, spent = false, carried = false,
    allowed = false, remaining = 0, retryAfterUs = 0, resetAfterUs = 0, delayUs = 0,
  }, last
end

-- The decision that a text asks for; nil if it asks for none.
local function parse(text)
  local _, at, verb, cost = find(text, '^(%l+) (%d+)')
  if verb ~= 'check' and verb ~= 'peek' then return nil end
  local decision = { peek = verb == 'peek', cost = tonumber(cost) }
  if decision.cost > MAX_SAFE then return nil end
  local count = 0
  while at < #text do
    count = count + 1
    decision[count], at = parseLimit(text, at + 1)
    if not at then return nil end
  end
  if count < 1 or count > MAX_LIMITS then return nil end
  return decision
end

local decisions = {}
local keyCount = 0
for at = 2, #ARGV do
  local text = ARGV[at]
  local decision = decisions[text]
  if not decision then
    decision = parse(text)
    if not decision then return refuse('a decision', text) end
    decisions[text] = decision
  end
  keyCount = keyCount + #decision
end
if keyCount ~= #KEYS then return refuse('the number of keys', #KEYS) end

local answer, size = {}, 0

local function add(allowed, remaining, retryAfterUs, resetAfterUs, delayUs)
  answer[size + 1], answer[size + 2], answer[size + 3] = allowed, remaining, retryAfterUs
  answer[size + 4], answer[size + 5] = resetAfterUs, delayUs
  size = size + 5
end

-- What a key of another type answers is a table without elements, and so none either.
local function isState(state, bytes)
  if bytes then return #state == bytes end
  return #state >= 24 and #state % 16 == 8
end

-- What somebody else wrote under our name may be as long as a state and still be none: then the numbers show it.
local function isAnswer(remaining, retryAfterUs, resetAfterUs, delayUs)
  local largest = max(remaining, retryAfterUs, resetAfterUs, delayUs)
  local sum = remaining + retryAfterUs + resetAfterUs + delayUs
  return largest <= MAX_SAFE and min(remaining, resetAfterUs, delayUs) >= 0 and retryAfterUs >= NEVER and sum == floor(sum)
end

-- Reads and decides every limit of a decision; false if a key holds something else than a state.
local function decideAll(decision, keyAt)
  for place = 1, #decision do
    local limit = decision[place]
    local state = redis.pcall('GET', KEYS[keyAt + place])
    if state and not isState(state, limit.bytes) then return false end
    local allowed, remaining, retryAfterUs, resetAfterUs, delayUs, spent, carried =
      limit.decide(state, limit.numbers, decision.cost, nowUs)
    if not isAnswer(remaining, retryAfterUs, resetAfterUs, delayUs) then return false end
    limit.state, limit.allowed, limit.remaining, limit.retryAfterUs = state, allowed, remaining, retryAfterUs
    limit.resetAfterUs, limit.delayUs, limit.spent, limit.carried = resetAfterUs, delayUs, spent, carried
  end
  return true
end

local function peek(decision)
  for place = 1, #decision do
    local limit = decision[place]
    local _, remaining, _, resetAfterUs = limit.decide(limit.state, limit.numbers, 0, nowUs)
    add(limit.allowed and 1 or 0, remaining, limit.retryAfterUs, resetAfterUs, limit.delayUs)
  end
end

local function keep(key, state, resetAfterUs)
  -- Rounded up, so that no key expires while its state still decides anything.
  redis.call('SET', key, state, 'PX', string.format('%.0f', max(1, ceil(resetAfterUs / 1000) + graceMs)))
end

local function check(decision, keyAt)
  local admitted = true
  for place = 1, #decision do admitted = admitted and decision[place].allowed end
  for place = 1, #decision do
    local limit = decision[place]
    if admitted then
      if limit.spent then keep(KEYS[keyAt + place], limit.spent, limit.resetAfterUs) end
      add(1, limit.remaining, 0, limit.resetAfterUs, limit.delayUs)
    else
      if limit.allowed then
        -- This limit had room, another one denied: nothing was spent here.
        local _, remaining, _, resetAfterUs, delayUs = limit.decide(limit.state, limit.numbers, 0, nowUs)
        limit.remaining, limit.resetAfterUs, limit.delayUs = remaining, resetAfterUs, delayUs
      end
      if limit.carried then keep(KEYS[keyAt + place], limit.carried, limit.resetAfterUs) end
      add(limit.allowed and 1 or 0, limit.remaining, limit.retryAfterUs, limit.resetAfterUs, limit.delayUs)
    end
  end
end

local keyAt = 0
for at = 2, #ARGV do
  local decision = decisions[ARGV[at]]
  if not decideAll(decision, keyAt) then
    for _ = 1, #decision do add(FAULT, 0, 0, 0, 0) end
  elseif decision.peek then
    peek(decision)
  else
    check(decision, keyAt)
  end
  keyAt = keyAt + #decision
end
return answer
