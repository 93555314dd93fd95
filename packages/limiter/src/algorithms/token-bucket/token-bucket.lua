-- Twin of token-bucket.ts.
--@needs ../bucket/bucket.lua
local function decideTokenBucket(state, numbers, cost, nowUs)
  local allowed, remaining, retryAfterUs, resetAfterUs, _, spent, carried = decideBucket(state, numbers, cost, nowUs)
  return allowed, remaining, retryAfterUs, resetAfterUs, 0, spent, carried
end

--@refund
local refundTokenBucket = refundBucket
