-- Shared by the twins. Numbers are doubles that hold integers below 2^53, exactly as in TypeScript; statement order and
-- names follow the `.ts` file beside each `.lua` file. A state is a packed string of little-endian doubles.
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local pack, unpack = struct.pack, struct.unpack
local NEVER = -1
local MAX_SAFE = 9007199254740991
local HUGE = math.huge
local MAX_TIME_US = 4503599627370496
local TOLERATED_STEP_US = 5000000
