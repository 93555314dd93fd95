-- Twin of concurrency.ts. The state: the units of all slots, then five numbers per slot: its end, how long it was taken
-- for, its id in two halves, its units. The one that ends first is in front. What decides also tells where the slot of
-- the limit stands, if it is held.
--@needs ../packed-list.lua
local SLOT_BYTES = 40

-- Slots are numbered from 0. The end of slot s starts at byte 9 + 40 s (bytes from 1), the rest follows.
local function slotEndAt(slots, slot)
  return (unpack('<d', slots, slot * SLOT_BYTES + 9))
end

local function slotUnitsAt(slots, slot)
  return (unpack('<d', slots, slot * SLOT_BYTES + 41))
end

local function slotUnitsFrom(slots, first)
  local units = unpack('<d', slots)
  for slot = 0, first - 1 do units = units - slotUnitsAt(slots, slot) end
  return units
end

-- Where a slot with this id stands, from slot `first` on; nil if none does.
local function slotOf(slots, first, numbers)
  if numbers[3] == 0 and numbers[4] == 0 then return nil end
  local id, from = pack('<dd', numbers[3], numbers[4]), first * SLOT_BYTES + 25
  while true do
    local at = string.find(slots, id, from, true)
    if not at then return nil end
    -- Found across the edge of two numbers it is no id.
    if (at - 25) % SLOT_BYTES == 0 then return (at - 25) / SLOT_BYTES end
    from = at + 1
  end
end

-- The slots from `first` on, without `own`.
local function slotsLive(slots, first, own)
  local units = slotUnitsFrom(slots, first)
  if not own then return pack('<d', units) .. slots:sub(first * SLOT_BYTES + 9) end
  return pack('<d', units - slotUnitsAt(slots, own))
    .. slots:sub(first * SLOT_BYTES + 9, own * SLOT_BYTES + 8)
    .. slots:sub((own + 1) * SLOT_BYTES + 9)
end

local function slotsInsert(slots, endUs, rest, units)
  local at = listFirstAfter(slots, SLOT_BYTES, endUs) * SLOT_BYTES + 8
  return pack('<d', unpack('<d', slots) + units)
    .. slots:sub(9, at) .. pack('<d', endUs) .. rest .. pack('<d', units) .. slots:sub(at + 1)
end

-- What the slots become after a step back that is not tolerated; nil elsewhere.
local function slotsAfterStepBack(slots, count, nowUs)
  if count == 0 then return nil end
  local endUs, holdUs = unpack('<dd', slots, (count - 1) * SLOT_BYTES + 9)
  if endUs - holdUs - nowUs <= max(holdUs, TOLERATED_STEP_US) then return nil end
  local moved = pack('<d', 0)
  for slot = listFirstAfter(slots, SLOT_BYTES, nowUs), count - 1 do
    local from = slot * SLOT_BYTES + 9
    endUs, holdUs = unpack('<dd', slots, from)
    moved = slotsInsert(moved, math.min(endUs, nowUs + holdUs), slots:sub(from + 8, from + 31), slotUnitsAt(slots, slot))
  end
  return moved
end

-- A slot as an answer tells it: of the same end and length, with these units.
local function slotTell(slots, slot, high, low, units)
  local endUs, holdUs = unpack('<dd', slots, slot * SLOT_BYTES + 9)
  answer[size + 1], answer[size + 2], answer[size + 3] = endUs, holdUs, high
  answer[size + 4], answer[size + 5] = low, units
  size = size + 5
end

local function decideConcurrency(state, numbers, cost, nowUs)
  local limit, holdUs = numbers[1], numbers[2]
  local count = state and (#state - 8) / SLOT_BYTES or 0
  local carried = state and slotsAfterStepBack(state, count, nowUs)
  local slots = carried or state or pack('<d', 0)
  count = (#slots - 8) / SLOT_BYTES
  local first = listFirstAfter(slots, SLOT_BYTES, nowUs)
  local used = slotUnitsFrom(slots, first)
  if not (used >= 0) then return nil end
  local own = slotOf(slots, first, numbers)
  local fits = own or cost <= limit - used
  if first < count then
    answer[size + 1] = used
    size = size + 1
    -- Two of them answer as all do: the own one, or the one whose end frees enough, and the newest. The sum has the
    -- rest.
    local newest = count - 1
    if own then
      slotTell(slots, own, numbers[3], numbers[4], slotUnitsAt(slots, own))
    elseif not fits and cost <= limit then
      local slot = first
      local freed = slotUnitsAt(slots, slot)
      while freed < used + cost - limit and slot < newest do
        slot = slot + 1
        freed = freed + slotUnitsAt(slots, slot)
      end
      slotTell(slots, slot, 0, 0, freed)
    end
    if own ~= newest then slotTell(slots, newest, 0, 0, 0) end
  end
  if fits and cost > 0 then
    local takenAtUs, units = nowUs, cost
    if first < count then
      local newestEndUs, newestHoldUs = unpack('<dd', slots, (count - 1) * SLOT_BYTES + 9)
      takenAtUs = max(nowUs, newestEndUs - newestHoldUs)
    end
    local endUs = takenAtUs + holdUs
    if own then
      local ownEndUs, ownHoldUs = unpack('<dd', slots, own * SLOT_BYTES + 9)
      if ownEndUs > endUs then endUs, holdUs = ownEndUs, ownHoldUs end
      units = slotUnitsAt(slots, own)
    end
    local rest = pack('<ddd', holdUs, numbers[3], numbers[4])
    local spent = slotsInsert(slotsLive(slots, first, own), endUs, rest, units)
    return true, slotEndAt(spent, (#spent - 8) / SLOT_BYTES - 1) - nowUs, spent, carried, own
  end
  local endsInUs = 0
  if first < count then endsInUs = slotEndAt(slots, count - 1) - nowUs end
  return cost == 0, endsInUs, nil, carried, own
end

--@refund
-- A slot that was taken then and not renewed since; one that is released, whenever it was taken, says 0.
local function refundConcurrency(state, numbers, cost, reservedAtUs, absentAtUs)
  local count = (#state - 8) / SLOT_BYTES
  local rest, own = pack('<ddd', numbers[2], numbers[3], numbers[4]), nil
  if reservedAtUs == 0 then
    own = slotOf(state, 0, numbers)
  else
    for slot = 0, count - 1 do
      local from = slot * SLOT_BYTES + 9
      local isTaken = slotEndAt(state, slot) == absentAtUs and slotUnitsAt(state, slot) == cost
      if isTaken and state:sub(from + 8, from + 31) == rest then own = slot end
    end
  end
  if not own then return state end
  if count == 1 then return nil end
  return slotsLive(state, 0, own)
end
