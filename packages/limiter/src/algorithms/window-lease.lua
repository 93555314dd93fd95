-- Twin of window-lease.ts: charges a lease to the window of now, as one admission. Answers the state, its life, and the
-- moment at which the limit is as if never used.
--@lease
local function chargeWindow(state, limit, tokens)
  local _, resetAfterUs, spent = limit.decide(state, limit, tokens, nowUs)
  return spent, resetAfterUs, nowUs + resetAfterUs, 0
end
