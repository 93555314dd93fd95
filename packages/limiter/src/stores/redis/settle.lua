-- Twin of stores/settlement.ts: gives back, or charges, what a reservation differs from what was used. What was done is
-- kept for a while under a key of its own, so that the same call, sent again because its answer was lost, changes
-- nothing.
--
-- KEYS: that key, and one per limit. ARGV: the time in microseconds ('' asks the server), how long to remember in
-- milliseconds, and per limit: its text as in decide.lua, the moment after which nothing is given back, and what to do,
-- one of
--   'charge <cost>'                                 under the numbers of the text, as much of it as fits
--   'refund' and ' <cost> <time> <absent>' for each part, the latest first: see refund.lua
--   'return' and ' <us> <fraction> <us> <fraction>' for each part: from where to where in the bucket's virtual time
-- The answer: per limit what was charged, EXPIRED, or FAULT for a key that holds something that is not a state; with a
-- FAULT nothing was changed.
local EXPIRED, FAULT = -1, -2
local lifeMs = integerAt(2)
if not lifeMs or lifeMs < 1 or #ARGV ~= 2 + 3 * (#KEYS - 1) then return refuse('a settlement', #ARGV) end

local PARTS = { refund = ' (%d+) (%d+) (%d+)', ['return'] = ' (%d+) (%d+) (%d+) (%d+)' }

local function parseChange(text)
  local verb = string.match(text or '', '^%l+')
  if verb == 'charge' then
    local cost = string.match(text, '^charge (%d+)$')
    if not cost or cost + 0 > MAX_SAFE then return nil end
    return { charge = cost + 0 }
  end
  local pattern = PARTS[verb or '']
  if not pattern then return nil end
  local change, at = { verb = verb }, #verb + 1
  while at <= #text do
    local _, last, a, b, c, d = find(text, '^' .. pattern, at)
    if not last then return nil end
    local part = { a + 0, b + 0, c + 0, (d or 0) + 0 }
    if max(part[1], part[2], part[3], part[4]) > MAX_SAFE then return nil end
    change[#change + 1], at = part, last + 1
  end
  return change
end

local limits = {}
for place = 1, #KEYS - 1 do
  local text, expiresAtUs, change = ARGV[3 * place], integerAt(3 * place + 1), parseChange(ARGV[3 * place + 2])
  local limit, last = parseLimit(text, 1)
  if not limit or last ~= #text or not expiresAtUs or not change then return refuse('a settlement', text) end
  limit.expiresAtUs, limit.change = expiresAtUs, change
  limits[place] = limit
end

-- Only the end of a bucket's virtual time can be returned: behind it, moments were promised to somebody.
local function returnTail(state, limit, part)
  local tatUs, fraction, tokenUnits, drainUnits, capacityUnits = unpack('<ddddd', state)
  local nextUs, nextFraction, endUs, endFraction = part[1], part[2], part[3], part[4]
  if tokenUnits ~= limit[2] or drainUnits ~= limit[3] then return state end
  if tatUs ~= endUs or fraction ~= endFraction then return state end
  if nextUs > endUs or (nextUs == endUs and nextFraction >= endFraction) then return state end
  if nextUs < nowUs then nextUs, nextFraction = nowUs, 0 end
  return pack('<ddddd', nextUs, nextFraction, tokenUnits, drainUnits, capacityUnits)
end

local function decideAlone(state, limit, cost)
  size = 2
  return limit.decide(state, limit, cost, nowUs)
end

-- The largest cost that fits, up to the one asked for.
local function fittingCost(state, limit, cost)
  if decideAlone(state, limit, cost) then return cost end
  local low, high = 0, cost
  while high - low > 1 do
    local middle = low + floor((high - low) / 2)
    if decideAlone(state, limit, middle) then low = middle else high = middle end
  end
  return low
end

-- What was done, the state to keep or false where it stays as it is, and its life.
local function settleOne(state, limit)
  local change = limit.change
  if decideAlone(state, limit, 0) == nil then return FAULT, false end
  if change.charge then
    local charged = fittingCost(state, limit, change.charge)
    if charged == 0 then return 0, false end
    local _, resetAfterUs, spent = decideAlone(state, limit, charged)
    return charged, spent or false, resetAfterUs
  end
  if nowUs > limit.expiresAtUs then return EXPIRED, false end
  if not state then return 0, false end
  local left = state
  for at = 1, #change do
    local part = change[at]
    if change.verb == 'refund' then
      left = refundOf(limit.decide)(left, limit, part[1], part[2], part[3])
    else
      left = returnTail(left, limit, part)
    end
  end
  if left == state then return 0, false end
  local _, resetAfterUs = decideAlone(left, limit, 0)
  return 0, left, resetAfterUs
end

local known = pcall('GET', KEYS[1])
if known then
  local done = {}
  if type(known) == 'string' then
    for number in string.gmatch(known, '%-?%d+') do done[#done + 1] = tonumber(number) end
  end
  if #done ~= #limits then return refuse('what was settled', #done) end
  return done
end

local done, kept, lives = {}, {}, {}
for place = 1, #limits do
  local state = pcall('GET', KEYS[place + 1])
  if state and not isState(state, limits[place]) then
    done[place] = FAULT
  else
    done[place], kept[place], lives[place] = settleOne(state or nil, limits[place])
  end
end
for place = 1, #limits do
  if done[place] == FAULT then return done end
end

local texts = {}
for place = 1, #limits do texts[place] = string.format('%.0f', done[place]) end
call('SET', KEYS[1], table.concat(texts, ' '), 'PX', lifeMs)
for place = 1, #limits do
  if kept[place] then
    if lives[place] > 0 then keep(KEYS[place + 1], kept[place], lives[place]) else call('DEL', KEYS[place + 1]) end
  end
end
return done
