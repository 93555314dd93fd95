-- One round trip for one or more decisions. Each decision reads all of its states, decides all of them, and writes all
-- or none.
--
-- ARGV: the time in microseconds ('' asks the server), then one text per decision: verb ('check' or 'peek'), cost, and
-- per limit the algorithm's number and its four compiled numbers, with one space between. KEYS: one per limit, in the
-- same order. The answer: per limit allowed (1 or 0), remaining, retryAfterUs, resetAfterUs, delayUs; FAULT in the
-- first place says that a key holds something that is not a state. The time of the decisions comes last.
--
-- The decisions of a call mostly ask the same of different keys. So each text is parsed once, and what came of it also
-- holds the verdicts of the decision under way: tables are what costs most, and the loop at the end makes none.
local MAX_LIMITS = 32
local FAULT = -1

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
    if state and not isState(state, limit) then return false end
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
answer[size + 1] = nowUs
return answer
