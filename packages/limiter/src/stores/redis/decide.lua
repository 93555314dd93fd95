-- One round trip for one or more decisions. Each decision reads all of its states, decides all of them, and writes all
-- or none.
--
-- ARGV: the time in microseconds ('' asks the server), then per decision: verb ('check' or 'peek'), cost, number of
-- limits, and per limit: the algorithm's number and its four compiled numbers. KEYS: one per limit, in the same order.
-- The answer: per limit allowed (1 or 0), remaining, retryAfterUs, resetAfterUs, delayUs; FAULT in the first place says
-- that a key holds something that is not a state. The time of the decisions comes last.
local FAULT = -1

local decisions = {}
local at, keyAt = 2, 0
while ARGV[at] do
  local cost, count = integer(ARGV[at + 1]), integer(ARGV[at + 2])
  if not cost then return refuse('the cost', ARGV[at + 1]) end
  if not count or count < 1 or count > 32 then return refuse('the number of limits', ARGV[at + 2]) end
  local verb = ARGV[at]
  if verb ~= 'check' and verb ~= 'peek' then return refuse('the verb', verb) end
  local decision = { peek = verb == 'peek', cost = cost }
  at = at + 3
  for place = 1, count do
    local algorithm = ALGORITHMS[integer(ARGV[at]) or 0]
    local a, b, c, d = integer(ARGV[at + 1]), integer(ARGV[at + 2]), integer(ARGV[at + 3]), integer(ARGV[at + 4])
    if not (algorithm and a and b and c and d and a >= 1 and b >= 1 and (c >= 1 or algorithm.offset)) then return refuse('a limit', ARGV[at]) end
    keyAt = keyAt + 1
    if not KEYS[keyAt] then return refuse('the number of keys', #KEYS) end
    decision[place] = { algorithm = algorithm, key = KEYS[keyAt], numbers = { a, b, c, d } }
    at = at + 5
  end
  decisions[#decisions + 1] = decision
end
if keyAt ~= #KEYS then return refuse('the number of keys', #KEYS) end

local answer = {}

local function add(allowed, remaining, retryAfterUs, resetAfterUs, delayUs)
  local size = #answer
  answer[size + 1], answer[size + 2], answer[size + 3] = allowed and 1 or 0, remaining, retryAfterUs
  answer[size + 4], answer[size + 5] = resetAfterUs, delayUs
end

-- Reads the states of a decision; nil if a key holds something else.
local function readStates(decision)
  for place = 1, #decision do
    local limit = decision[place]
    limit.state = redis.pcall('GET', limit.key)
    if limit.state and not isState(limit.state, limit.algorithm.bytes) then return false end
  end
  return true
end

-- What somebody else wrote under our name may be as long as a state and still be none: then the numbers show it.
local function isAnswer(remaining, retryAfterUs, resetAfterUs, delayUs)
  local largest = max(remaining, retryAfterUs, resetAfterUs, delayUs)
  local sum = remaining + retryAfterUs + resetAfterUs + delayUs
  return largest <= MAX_SAFE and min(remaining, resetAfterUs, delayUs) >= 0 and retryAfterUs >= NEVER and sum == floor(sum)
end

-- Decides every limit of a decision; false if a state turns out not to be one.
local function decideAll(decision)
  for place = 1, #decision do
    local limit = decision[place]
    limit.allowed, limit.remaining, limit.retryAfterUs, limit.resetAfterUs, limit.delayUs, limit.spent, limit.carried =
      limit.algorithm.decide(limit.state, limit.numbers, decision.cost, nowUs)
    if not isAnswer(limit.remaining, limit.retryAfterUs, limit.resetAfterUs, limit.delayUs) then return false end
  end
  return true
end

local function peek(decision)
  for place = 1, #decision do
    local limit = decision[place]
    local _, remaining, _, resetAfterUs = limit.algorithm.decide(limit.state, limit.numbers, 0, nowUs)
    add(limit.allowed, remaining, limit.retryAfterUs, resetAfterUs, limit.delayUs)
  end
end

local function check(decision)
  local admitted = true
  for place = 1, #decision do admitted = admitted and decision[place].allowed end
  for place = 1, #decision do
    local limit = decision[place]
    if admitted then
      if limit.spent then keep(limit.key, limit.spent, limit.resetAfterUs) end
      add(true, limit.remaining, 0, limit.resetAfterUs, limit.delayUs)
    else
      if limit.allowed then
        -- This limit had room, another one denied: nothing was spent here.
        local _, remaining, _, resetAfterUs, delayUs = limit.algorithm.decide(limit.state, limit.numbers, 0, nowUs)
        limit.remaining, limit.resetAfterUs, limit.delayUs = remaining, resetAfterUs, delayUs
      end
      if limit.carried then keep(limit.key, limit.carried, limit.resetAfterUs) end
      add(limit.allowed, limit.remaining, limit.retryAfterUs, limit.resetAfterUs, limit.delayUs)
    end
  end
end

for place = 1, #decisions do
  local decision = decisions[place]
  if not (readStates(decision) and decideAll(decision)) then
    for _ = 1, #decision do
      answer[#answer + 1] = FAULT
      for _ = 1, 4 do answer[#answer + 1] = 0 end
    end
  elseif decision.peek then
    peek(decision)
  else
    check(decision)
  end
end
answer[#answer + 1] = nowUs
return answer
