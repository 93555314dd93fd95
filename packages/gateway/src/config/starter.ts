/** The JSON Schema beside a starter file: editors that read its first line complete and check as one types. */
export const SCHEMA_FILE = 'spillgate.schema.json';

/** What `spillgate init` writes: small, complete, and accepted as it is. */
export const STARTER_FILE = `# yaml-language-server: $schema=${SCHEMA_FILE}
# Configuration of a Spillgate gateway. Every setting is in docs/gateway-configuration.md.
# Check it with:      spillgate check spillgate.yaml
# Run it with:        spillgate run spillgate.yaml
# See what is used:   spillgate config spillgate.yaml
# Every setting can also come from a variable, which wins: SPILLGATE_SERVER_ADDRESS, SPILLGATE_REDIS_PASSWORD_FILE, ...

server:
  address: ":8080"
  # Behind a load balancer, name it here; else every client has the address of the load balancer.
  # client_address:
  #   trusted_proxies: ["10.0.0.0/8"]

backend:
  # The service behind the gateway.
  url: "http://localhost:3000"

rate_limit:
  # Every client may make 100 requests per second, and 200 at once. This is the policy "default", for what no rule matches.
  average: 100
  burst: 200
  period: "1s"
  key_strategy: clientIP # or: { type: header, header_name: X-Tenant-Id }

  # While Redis cannot answer: inMemoryFallback decides locally, passThrough admits, failClosed refuses.
  failure_policy: inMemoryFallback

  # Policies are promises by name. The first rule that matches a request says which of them it has to meet.
  policies:
    login:
      algorithm: slidingWindowLog
      quota: 5
      window: "15m"
  rules:
    - name: login
      match:
        path: /login
        method: POST
        lenient_path: true # /LOGIN, /login/ and /login;x are /login to many frameworks
      policies: [default, login]
    - name: health
      match:
        path: /healthz
      policies: [] # never limited

# Several gateways share their limits through Redis. Without this section states live in the memory of one process.
# redis:
#   endpoints: ["localhost:6379"]

admin:
  address: "127.0.0.1:9090"

logging:
  level: info
  format: auto # readable on a terminal, JSON in a pipe
`;

/** What `init` writes when no file is named. */
export const DEFAULT_FILE = 'spillgate.yaml';
