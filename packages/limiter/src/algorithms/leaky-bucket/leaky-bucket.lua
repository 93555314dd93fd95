-- Twin of leaky-bucket.ts.
--@needs ../bucket/bucket.lua
local decideLeakyBucket = decideBucket

--@refund
local refundLeakyBucket = refundBucket
