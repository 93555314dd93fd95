-- Twin of leaky-bucket.ts.
local decideLeakyBucket = decideBucket
