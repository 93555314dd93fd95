/** What the demo is and what to try: printed at the start, and the answer to `/`. */
export function guide(port: number): string {
  const url = `http://127.0.0.1:${port}`;
  return `Spillgate demo on ${url}: limits per client address, kept in this process's memory.

  /api      token bucket            5 per 10 s, 5 at once
  /login    sliding window log      3 in any 30 s
  /upload   token bucket, by cost   10 units per minute: ?cost=3 spends three
  /queue    leaky bucket            2 per second, evenly spaced; a request waits at most 2 s for its turn
  /both     two limits, all or none 3 per minute and client, 1000 per day for everybody

Try:

  curl -i ${url}/api
  for i in 1 2 3 4 5 6 7; do curl -s -o /dev/null -w '%{http_code} ' ${url}/api; done; echo
  curl -i '${url}/upload?cost=8'; curl -i '${url}/upload?cost=8'
  seq 7 | xargs -P7 -I@ curl -s -o /dev/null -w '%{http_code} after %{time_total} s\\n' ${url}/queue

A 429 carries Retry-After: a client that waits so long is admitted.
`;
}
