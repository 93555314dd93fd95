-- Twin of sliding-window-log.ts. The state: the cost admitted before the first record, then pairs of stamp and total.
--@needs ../packed-list.lua
local RECORD_BYTES = 16
local MAX_RUNNING_TOTAL = 4503599627370496

-- Records are numbered from 0. The stamp of record r starts at byte 9 + 16 r, its total 8 bytes later (bytes from 1).
local function logStampAt(log, record)
  return (unpack('<d', log, record * RECORD_BYTES + 9))
end

local function logTotalAt(log, record)
  return (unpack('<d', log, record * RECORD_BYTES + 17))
end

local function logFreedAtUs(log, records, total)
  local low, high = 0, records - 1
  while low < high do
    local middle = floor((low + high) / 2)
    if logTotalAt(log, middle) >= total then high = middle else low = middle + 1 end
  end
  return logStampAt(log, low)
end

local function logStartOver(log)
  local before = unpack('<d', log)
  local parts = { pack('<d', 0) }
  for record = 0, (#log - 8) / RECORD_BYTES - 1 do
    parts[#parts + 1] = pack('<dd', logStampAt(log, record), logTotalAt(log, record) - before)
  end
  return table.concat(parts)
end

local function logAppend(log, records, first, stampUs, cost)
  local total = logTotalAt(log, records - 1) + cost
  local joins = first < records and logStampAt(log, records - 1) == stampUs
  local last = #log
  if joins then last = last - RECORD_BYTES end
  local live = log:sub(first * RECORD_BYTES + 1, last) .. pack('<dd', stampUs, total)
  if total > MAX_RUNNING_TOTAL then return logStartOver(live) end
  return live
end

-- What the log becomes after a step back that is not tolerated; nil elsewhere.
local function logAfterStepBack(log, windowUs, stepUs, nowUs)
  local records = (#log - 8) / RECORD_BYTES
  if records == 0 or logStampAt(log, records - 1) - nowUs <= max(windowUs, TOLERATED_STEP_US) then return nil end
  local total = logTotalAt(log, records - 1) - logTotalAt(log, listFirstAfter(log, RECORD_BYTES, nowUs - windowUs) - 1)
  return pack('<ddd', 0, ceil(nowUs / stepUs) * stepUs, total)
end

local function decideSlidingWindowLog(state, numbers, cost, nowUs)
  local limit, windowUs, stepUs = numbers[1], numbers[2], numbers[3]
  local carried = state and logAfterStepBack(state, windowUs, stepUs, nowUs)
  local log = carried or state or pack('<d', 0)
  local records = (#log - 8) / RECORD_BYTES
  local first = listFirstAfter(log, RECORD_BYTES, nowUs - windowUs)
  local before = logTotalAt(log, first - 1)
  local total = logTotalAt(log, records - 1) - before
  if not (total >= 0) then return nil end
  local newestUs = 0
  if first < records then newestUs = logStampAt(log, records - 1) end
  local fits = cost <= limit - total
  if first < records then
    answer[size + 1] = 0
    size = size + 1
    -- A log of two records answers as the whole one does: what has to leave before the cost fits, and the newest.
    if not fits and cost <= limit then
      local freed = total + cost - limit
      answer[size + 1], answer[size + 2] = logFreedAtUs(log, records, before + freed), freed
      size = size + 2
    end
    answer[size + 1], answer[size + 2] = newestUs, total
    size = size + 2
  end
  if fits and cost > 0 then
    local stampUs = max(newestUs, ceil(nowUs / stepUs) * stepUs)
    return true, stampUs + windowUs - nowUs, logAppend(log, records, first, stampUs, cost), carried
  end
  local resetAfterUs = 0
  if first < records then resetAfterUs = newestUs + windowUs - nowUs end
  return cost == 0, resetAfterUs, nil, carried
end

--@refund
local function refundSlidingWindowLog(state, numbers, cost, _, absentAtUs)
  local records = (#state - 8) / RECORD_BYTES
  local place
  for at = 0, records - 1 do
    if logStampAt(state, at) == absentAtUs - numbers[2] then place = at end
  end
  if not place then return state end
  local own = logTotalAt(state, place) - logTotalAt(state, place - 1)
  if own < cost then return state end
  local parts = { state:sub(1, 8 + place * RECORD_BYTES) }
  -- A record of nothing would keep the limit from being as if never used.
  for at = own == cost and place + 1 or place, records - 1 do
    parts[#parts + 1] = pack('<dd', logStampAt(state, at), logTotalAt(state, at) - cost)
  end
  return table.concat(parts)
end

--@lease
-- The log as it is now, its first record that counts, and what is left.
local function seeLog(state, limit)
  local windowUs = limit[2]
  local carried = state and logAfterStepBack(state, windowUs, limit[3], nowUs)
  local log = carried or state or pack('<d', 0)
  local records = (#log - 8) / RECORD_BYTES
  local first = listFirstAfter(log, RECORD_BYTES, nowUs - windowUs)
  return log, records, first, max(0, limit[1] - (logTotalAt(log, records - 1) - logTotalAt(log, first - 1)))
end

local function roomInSlidingWindowLog(state, limit)
  local _, _, _, left = seeLog(state, limit)
  return left
end

local function chargeSlidingWindowLog(state, limit, tokens)
  local windowUs, stepUs = limit[2], limit[3]
  local log, records, first, left = seeLog(state, limit)
  if tokens > left then return nil end
  local newestUs = 0
  if first < records then newestUs = logStampAt(log, records - 1) end
  local endUs = nowUs + math.min(1000000, floor(windowUs / 50))
  local stampUs = max(newestUs, ceil(endUs / stepUs) * stepUs)
  local absentAtUs = stampUs + windowUs
  return logAppend(log, records, first, stampUs, tokens), absentAtUs - nowUs, absentAtUs, 0
end

local function takeBackSlidingWindowLog(state, limit, unspent, _, absentAtUs)
  return refundSlidingWindowLog(state, limit, unspent, nil, absentAtUs)
end
