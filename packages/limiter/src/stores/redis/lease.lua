-- Twin of stores/local/lease-grant.ts: charges a lease to a limit, or takes the rest of one back. How, the algorithms
-- say: the parts of their twins after `--@lease`.
--
-- KEYS: the state. ARGV: the time in microseconds ('' asks the server), 'lease' or 'return', and the limit as in
-- decide.lua. For a lease: the tokens wanted. The answer: tokens granted, tokens left, where the lease ends (of a
-- bucket's virtual time the microsecond and its fraction; of a window when it is as if never used, and 0), the time.
-- For a return: the rest, in four numbers. The answer: 1 if it was taken back.
local FAULT = -1

local limit, last = parseLimit(ARGV[3] or '', 1)
if not limit or last ~= #ARGV[3] then return refuse('a limit', ARGV[3]) end
local state = pcall('GET', KEYS[1])
if state and not isState(state, limit) then return { FAULT, 0, 0, 0, nowUs } end
local roomIn, charge, takeBack, passes = leaseOf(limit.decide)

if ARGV[2] == 'lease' then
  local want = integerAt(4)
  if not want or want < 1 then return refuse('the tokens wanted', ARGV[4]) end
  local min = math.min
  local before = roomIn(state, limit)
  local tokens = min(want, floor(before / 4))
  if passes and before * 4 >= limit[1] * 3 then tokens = max(tokens, min(4 * want, floor(before / 20))) end
  if tokens < 1 then return { 0, before, 0, 0, nowUs } end
  local spent, lifeUs, endUs, endFraction = charge(state, limit, tokens)
  if not spent then return { 0, before, 0, 0, nowUs } end
  keep(KEYS[1], spent, lifeUs)
  return { tokens, roomIn(spent, limit), endUs, endFraction, nowUs }
end

if ARGV[2] ~= 'return' then return refuse('the verb', ARGV[2]) end
local a, b, c, d = integerAt(4), integerAt(5), integerAt(6), integerAt(7)
if not (a and b and c and d) then return refuse('a lease', ARGV[4]) end
if not state then return { 0 } end
local returned = takeBack(state, limit, a, b, c, d)
if returned == state then return { 0 } end
local _, resetAfterUs = limit.decide(returned, limit, 0, nowUs)
if resetAfterUs > 0 then
  keep(KEYS[1], returned, resetAfterUs)
else
  call('DEL', KEYS[1])
end
return { 1 }
