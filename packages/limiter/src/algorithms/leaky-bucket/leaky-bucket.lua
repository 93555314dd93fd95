-- Twin of leaky-bucket.ts.
--@needs ../bucket/bucket.lua
local decideLeakyBucket = decideBucket

--@refund
local refundLeakyBucket = refundBucket

--@lease
-- Nobody leases from a queue; what was charged for nobody is given back as the rest of a lease is.
local roomInLeakyBucket, chargeLeakyBucket, takeBackLeakyBucket = roomInBucket, chargeBucket, takeBackBucket
