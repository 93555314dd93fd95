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
  if not state or not isState(state, limit) then state = nil end
  local refunded = state and refundOf(limit.decide)(state, limit.numbers, cost, reservedAtUs, limit.absentAtUs)
  local allowed, remaining, retryAfterUs, resetAfterUs, delayUs = limit.decide(refunded, limit.numbers, 0, nowUs)
  if refunded ~= state then
    if resetAfterUs > 0 then keep(KEYS[place], refunded, resetAfterUs) else redis.call('DEL', KEYS[place]) end
  end
  local size = #answer
  answer[size + 1], answer[size + 2], answer[size + 3] = allowed and 1 or 0, remaining, retryAfterUs
  answer[size + 4], answer[size + 5] = resetAfterUs, delayUs
end
return answer
