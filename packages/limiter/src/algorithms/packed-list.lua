-- Twin of packed-list.ts. A list in a state: one number, then records of as many bytes each that begin with a moment,
-- in the order of these. Records are numbered from 0; the moment of record r starts at byte 9 + r * recordBytes.

-- The first record later than this; as many as there are where none is.
local function listFirstAfter(list, recordBytes, atUs)
  local low, high = 0, (#list - 8) / recordBytes
  while low < high do
    local middle = floor((low + high) / 2)
    if (unpack('<d', list, middle * recordBytes + 9)) > atUs then high = middle else low = middle + 1 end
  end
  return low
end
