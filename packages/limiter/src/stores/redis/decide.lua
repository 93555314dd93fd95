-- One round trip for one or more decisions. Each decision reads all of its states, decides all of them, and writes all
-- or none.
--
-- ARGV: the time in microseconds ('' asks the server), then what is asked, each text once: verb ('check' or 'peek'),
-- cost, and per limit the algorithm's number and its four compiled numbers, with one space between, and where its cost
-- is its own, '@' and that. Where there are several texts, a letter per decision says which of them it asks ('0' is the
-- first). KEYS: one per limit, in the order of the decisions, and behind those of a decision one more for each of its
-- limits that blocks keys: the limit's text ends in '!', how many denials, within what and for how long. The answer is
-- that of prelude.lua; where a key holds something that is not a state, FAULT stands for all limits of the decision.
--
-- Tables and functions are what costs most, and the loop at the end makes none: what came of a text also holds the
-- outcome of the decision under way. Redis gets numbers as they are: it writes all digits of an integer, and does so
-- faster than string.format.
local MAX_LIMITS = 32
local FAULT = -1
local byte = string.byte

local texts, order = #ARGV - 1, nil
if texts > 1 then texts, order = texts - 1, ARGV[#ARGV] end
local asked = { nil }
for at = 1, texts do
  local text = ARGV[at + 1]
  local _, last, verb, cost = find(text, '^(%l+) (%d+)')
  if verb ~= 'check' and verb ~= 'peek' then return refuse('a decision', text) end
  cost = cost + 0
  if cost > MAX_SAFE then return refuse('a decision', text) end
  local decision, count = { nil, peek = verb == 'peek', cost = cost, keys = 0 }, 0
  while last < #text do
    count = count + 1
    decision[count], last = parseLimit(text, last + 1)
    if not last then return refuse('a decision', text) end
  end
  if count < 1 or count > MAX_LIMITS then return refuse('a decision', text) end
  decision.keys = count
  --@penalty
  for place = 1, count do
    local limit = decision[place]
    if limit.after then
      decision.keys = decision.keys + 1
      limit.penaltyAt = decision.keys
    end
  end
  --@end
  asked[at] = decision
end

local keys = KEYS
local decision, keyCount = asked[1], #keys
if order then
  keyCount = 0
  for at = 1, #order do
    decision = asked[byte(order, at) - 47]
    if not decision then return refuse('the order of decisions', order) end
    keyCount = keyCount + decision.keys
  end
elseif decision then
  keyCount = max(1, ceil(keyCount / decision.keys)) * decision.keys
end
if keyCount ~= #keys then return refuse('the number of keys', #keys) end

local admitted, keyAt, decisionAt = 0, 0, 0
while keyAt < keyCount do
  decisionAt = decisionAt + 1
  if order then decision = asked[byte(order, decisionAt) - 47] end
  local cost, first, faulty, allowed = decision.cost, size, false, true
  for place = 1, #decision do
    local limit = decision[place]
    local state = pcall('GET', keys[keyAt + place])
    if state then
      -- What a key of another type answers is a table without elements, and so no state either.
      local moreBytes = #state - limit.leastBytes
      if moreBytes ~= 0 and (moreBytes < 0 or limit.recordBytes == 0 or moreBytes % limit.recordBytes > 0) then
        faulty = true
        break
      end
    end
    size = size + 1
    local count = size
    local fits, resetAfterUs, spent, carried, held = limit.decide(state, limit, limit.cost or cost, nowUs)
    answer[count] = size - count
    -- What somebody else wrote under our name may be as long as a state and still be none: then the numbers show it.
    faulty = fits == nil
    for at = count + 1, size do
      local number = answer[at]
      if not (number >= 0 and number <= MAX_SAFE and number % 1 == 0) then faulty = true end
    end
    if faulty then break end
    limit.state, limit.allowed, limit.resetAfterUs, limit.spent, limit.carried = state, fits, resetAfterUs, spent, carried
    allowed = allowed and fits
    --@penalty
    if limit.after then
      -- Behind the state: for how much longer the key is blocked, and whether this decision began it.
      local known, leftUs, began = pcall('GET', keys[keyAt + limit.penaltyAt]), 0, 0
      limit.penalty = false
      if known and (#known < 8 or #known % 8 > 0) then
        faulty = true
        break
      end
      if known and not held then leftUs = penaltyLeft(known, limit, nowUs) end
      if not leftUs then
        faulty = true
        break
      end
      if leftUs > 0 then
        allowed = false
        -- The clock stepped back: the block ends by the clock of now.
        if unpack('<d', known) ~= nowUs + leftUs then
          limit.penalty, limit.penaltyLifeUs = pack('<d', nowUs + leftUs), leftUs
        end
      elseif not fits and not decision.peek then
        local penalty, lifeUs, begins = penaltyAfterDenial(known, limit, nowUs)
        if not penalty then
          faulty = true
          break
        end
        limit.penalty, limit.penaltyLifeUs = penalty, lifeUs
        if begins then leftUs, began = limit.forUs, 1 end
      end
      answer[size + 1], answer[size + 2] = leftUs, began
      size = size + 2
    end
    --@end
  end
  if faulty then
    size = first + 1
    answer[size] = FAULT
  else
    if allowed then admitted = admitted + 1 end
    if not decision.peek then
      for place = 1, #decision do
        local limit = decision[place]
        local kept, resetAfterUs = limit.spent, limit.resetAfterUs
        if not allowed then
          kept = limit.carried
          if kept and limit.allowed then
            -- This limit had room, another one denied: nothing was spent here.
            local told, _ = size, nil
            _, resetAfterUs = limit.decide(limit.state, limit, 0, nowUs)
            size = told
          end
        end
        if kept then
          -- Rounded up, so that no key expires while its state still decides anything. What outlasts every clock, a
          -- quota for life, does not expire at all.
          if nowUs + resetAfterUs > MAX_TIME_US then
            call('SET', keys[keyAt + place], kept)
          else
            local lifeMs = max(1, ceil(resetAfterUs / 1000) + graceMs)
            call('SET', keys[keyAt + place], kept, 'PX', lifeMs)
          end
        end
        --@penalty
        if limit.after and limit.penalty and cost > 0 then
          local lifeMs = max(1, ceil(limit.penaltyLifeUs / 1000) + graceMs)
          call('SET', keys[keyAt + limit.penaltyAt], limit.penalty, 'PX', lifeMs)
        end
        --@end
      end
    end
  end
  keyAt = keyAt + decision.keys
end
answer[1], answer[2], answer[size + 1] = nowUs, admitted, nil
return answer
