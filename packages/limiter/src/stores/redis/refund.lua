-- Gives back what one check has spent here, because another server denied the same check. A reservation holds room back
-- from everybody else while it stands, so the full amount would be too much: the refund is aged, and never leaves more
-- than if the reservation had not happened.
--
-- ARGV: the time in microseconds ('' asks the server), the time of the reservation, its cost, and per limit: its text
-- as in decide.lua, and the moment at which the limit was to be as if never used. KEYS: one per limit. The answer is
-- that of decide.lua for a look that costs nothing.
local reservedAtUs, cost = integerAt(2), integerAt(3)
if not (reservedAtUs and cost and #ARGV == 3 + 2 * #KEYS) then return refuse('a refund', #ARGV) end

local limits = {}
for place = 1, #KEYS do
  local text, absentAtUs = ARGV[2 + 2 * place], integerAt(3 + 2 * place)
  local limit, last = parseLimit(text, 1)
  if last ~= #text or not absentAtUs then return refuse('a limit', text) end
  limit.absentAtUs = absentAtUs
  limits[place] = limit
end

for place = 1, #limits do
  local limit = limits[place]
  local state = pcall('GET', KEYS[place])
  if not state or not isState(state, limit) then state = nil end
  local refunded = state and refundOf(limit.decide)(state, limit, limit.cost or cost, reservedAtUs, limit.absentAtUs)
  size = size + 1
  local count = size
  local _, resetAfterUs = limit.decide(refunded, limit, 0, nowUs)
  answer[count] = size - count
  if refunded ~= state then
    if resetAfterUs > 0 then keep(KEYS[place], refunded, resetAfterUs) else call('DEL', KEYS[place]) end
  end
end
answer[1], answer[2] = nowUs, 1
return answer
