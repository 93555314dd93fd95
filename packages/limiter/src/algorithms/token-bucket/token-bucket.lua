-- Twin of token-bucket.ts.
--@needs ../bucket/bucket.lua
local decideTokenBucket = decideBucket

--@refund
local refundTokenBucket = refundBucket

--@lease
local roomInTokenBucket, chargeTokenBucket, takeBackTokenBucket = roomInBucket, chargeBucket, takeBackBucket
