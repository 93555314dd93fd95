-- Shared by the twins. Numbers are doubles that hold integers below 2^53, exactly as in TypeScript; statement order and
-- names follow the `.ts` file beside each `.lua` file. A state is a packed string of little-endian doubles.
--
-- A script runs from its first line in every call, so each function, table and global it names costs every call: what
-- is rare makes its functions when it needs them.
local floor, ceil, max = math.floor, math.ceil, math.max
local pack, unpack = struct.pack, struct.unpack
local MAX_SAFE = 9007199254740991
local MAX_TIME_US = 4503599627370496
local TOLERATED_STEP_US = 5000000

-- The answer: the time, how many decisions were admitted, and per limit how many numbers follow, and these. They are a
-- state that answers the question as the stored one does, and a twin adds them before it decides; none where nothing
-- counts. The client derives the verdict from them. (Room for one limit, as most calls have.)
local answer, size = { 0, 0, nil, nil, nil }, 2
