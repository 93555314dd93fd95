import { SCHEMA_FILE, STARTER_FILE } from './starter.ts';

/** A file that `spillgate init --for` writes beside the configuration. */
interface StarterCompanion {
  readonly name: string;
  readonly text: string;
}

/** What somebody who comes with a program of their own starts from. */
export interface Starter {
  readonly summary: string;
  /** Accepted as it is. */
  readonly config: string;
  readonly companions: readonly StarterCompanion[];
  /** What to run: `@PROGRAM@` stands for this program, `@FILE@` for the configuration. */
  readonly next: string;
}

const MODELINE = `# yaml-language-server: $schema=${SCHEMA_FILE}`;

const SERVED = `service:
  address: "127.0.0.1:8081"
  # token: at least 16 characters, where others can reach the port; better as SPILLGATE_SERVICE_TOKEN_FILE
`;

const SHARED = `
# Several instances share their limits through Redis. Without this section states live in the memory of one process.
# redis:
#   endpoints: ["localhost:6379"]

admin:
  address: "127.0.0.1:9090" # the dashboard: open it in a browser
`;

const EXPRESS_APP = `// An application of Express behind the gateway: node app.mjs
import express from 'express';

const app = express();
// The gateway says who the client is: req.ip is the address of the client, not that of the gateway.
app.set('trust proxy', 'loopback');

app.get('/', (req, res) => res.json({ hello: req.ip }));
app.post('/login', (req, res) => res.json({ ok: true }));

// Nobody but the gateway reaches it: else its limits would be a suggestion.
app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1');
`;

const NGINX_CONFIG = `${MODELINE}
# nginx asks Spillgate before it forwards a request (auth_request). Start with: spillgate serve @FILE@
# Every setting is in docs/gateway-configuration.md, and more about nginx in docs/proxies/nginx.md.

server:
  # nginx says who the client is; nobody else may.
  client_address: { trusted_proxies: [loopback] }

${SERVED}
rate_limit:
  key_strategy: clientIP # or: { type: header, header_name: X-Tenant-Id }
  policies:
    # 100 requests per second for every client, and 50 at once.
    api: { algorithm: tokenBucket, average: 100, burst: 50, period: 1s }
    login: { algorithm: slidingWindowLog, quota: 5, window: 15m }
  # The first rule that matches decides. What no rule matches is not limited.
  rules:
    - { name: login, match: { path: /login, method: POST, lenient_path: true }, policies: [login] }
    - { name: api, match: { path: /** }, policies: [api] }
${SHARED}`;

const NGINX_CONF = `# A whole configuration: nginx -p "$PWD" -c "$PWD/nginx.conf"
# For an nginx that runs already, take the server section.
daemon off;
pid nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  server {
    listen 127.0.0.1:8080;

    location / {
      auth_request /_spillgate;
      auth_request_set $limit_status $upstream_http_x_spillgate_status;
      auth_request_set $limit $upstream_http_ratelimit;
      auth_request_set $limit_policy $upstream_http_ratelimit_policy;
      auth_request_set $limit_wait $upstream_http_retry_after;
      add_header RateLimit $limit always;
      add_header RateLimit-Policy $limit_policy always;
      error_page 403 = @refused;
      proxy_pass http://127.0.0.1:3000;
    }

    location = /_spillgate {
      internal;
      # nginx knows 403 as a refusal, and takes any other status for a failure.
      proxy_pass http://127.0.0.1:8081/v1/forward-auth/denied_status=403;
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
      # All of them are set here, so that clients cannot.
      proxy_set_header X-Forwarded-Method $request_method;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-Host $host;
      proxy_set_header X-Forwarded-Uri $request_uri;
      proxy_set_header X-Forwarded-For $remote_addr;
    }

    location @refused {
      add_header RateLimit $limit always;
      add_header RateLimit-Policy $limit_policy always;
      add_header Retry-After $limit_wait always;
      if ($limit_status = 400) { return 400; }
      if ($limit_status = 503) { return 503; }
      return 429;
    }
  }
}
`;

const ENVOY_CONFIG = `${MODELINE}
# Envoy asks Spillgate over gRPC (its rate limit service). Start with: spillgate serve @FILE@
# Every setting is in docs/gateway-configuration.md, and more about Envoy in docs/proxies/envoy.md.

${SERVED}  rls:
    # Routes of Envoy make descriptors; each is counted by these policies.
    descriptors:
      - { domain: shop, entries: [{ key: user }], policies: [per-user] }
      - { domain: shop, entries: [{ key: path, value: "/login*" }, { key: remote_address }], policies: [login] }

rate_limit:
  policies:
    # 100 requests per second for every user, and 50 at once.
    per-user: { algorithm: tokenBucket, average: 100, burst: 50, period: 1s }
    login: { algorithm: slidingWindowLog, quota: 5, window: 15m }
${SHARED}`;

const ENVOY_YAML = `# envoy -c envoy.yaml
static_resources:
  listeners:
    - address: { socket_address: { address: 127.0.0.1, port_value: 8080 } }
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: ingress
                use_remote_address: true
                route_config:
                  virtual_hosts:
                    - name: app
                      domains: ["*"]
                      routes:
                        - match: { prefix: / }
                          route:
                            cluster: app
                            rate_limits:
                              - actions:
                                  - request_headers: { header_name: x-user, descriptor_key: user }
                              - actions:
                                  - request_headers: { header_name: ":path", descriptor_key: path }
                                  - remote_address: {}
                http_filters:
                  - name: envoy.filters.http.ratelimit
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
                      domain: shop
                      timeout: 0.5s
                      # What happens while the service cannot decide: true refuses, false lets pass.
                      failure_mode_deny: true
                      rate_limit_service:
                        transport_api_version: V3
                        grpc_service: { envoy_grpc: { cluster_name: spillgate } }
                  - name: envoy.filters.http.router
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
    - name: app
      type: STATIC
      load_assignment:
        cluster_name: app
        endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 3000 } } } }] }]
    - name: spillgate
      type: STATIC
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: { http2_protocol_options: {} }
      load_assignment:
        cluster_name: spillgate
        endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 8081 } } } }] }]
`;

const LLM_CONFIG = `${MODELINE}
# In front of an API of language models: requests and tokens per minute, for every API key.
# Check it with: spillgate check @FILE@      Run it with: spillgate run @FILE@
# Every setting is in docs/gateway-configuration.md, and more about tokens in docs/llm.md.

server:
  address: ":8080"
  # Answers are streamed, and take their time.
  request_timeout: 10m

backend:
  # The API, or what serves the models.
  url: "http://localhost:8000"

rate_limit:
  # Who pays is who is counted: the key in Authorization, which is only kept as its hash.
  key_strategy: { type: header, header_name: Authorization }
  policies:
    requests: { algorithm: tokenBucket, average: 60, burst: 20, period: 1m }
    tokens: { algorithm: slidingWindowCounter, quota: 100000, window: 1m }
  rules:
    - name: models
      match: { path: "/v1/models/**", method: GET, lenient_path: true }
      policies: [] # never limited
    - name: completions
      match: { path: "/v1/**", lenient_path: true }
      policies: [{ policy: requests, cost: 1 }, tokens]
      # Charged before is an estimate, and corrected by the usage that the answer reports.
      cost: { type: llmTokens, output_tokens: 500 }
      settle: { type: llmTokens }
${SHARED}`;

/** The one list of what `spillgate init --for` knows. */
export const STARTERS: ReadonlyMap<string, Starter> = new Map([
  [
    'express',
    {
      summary: 'a gateway in front of an application of Express',
      config: STARTER_FILE,
      companions: [{ name: 'app.mjs', text: EXPRESS_APP }],
      next: 'npm install express, then node app.mjs, and @PROGRAM@ run @FILE@',
    },
  ],
  [
    'nginx',
    {
      summary: 'nginx asks with auth_request',
      config: NGINX_CONFIG,
      companions: [{ name: 'nginx.conf', text: NGINX_CONF }],
      next: '@PROGRAM@ serve @FILE@, and nginx -p "$PWD" -c "$PWD/nginx.conf"',
    },
  ],
  [
    'envoy',
    {
      summary: 'Envoy asks over gRPC',
      config: ENVOY_CONFIG,
      companions: [{ name: 'envoy.yaml', text: ENVOY_YAML }],
      next: '@PROGRAM@ serve @FILE@, and envoy -c envoy.yaml',
    },
  ],
  [
    'llm',
    {
      summary: 'a gateway in front of an API of language models',
      config: LLM_CONFIG,
      companions: [],
      next: 'set backend.url, then @PROGRAM@ run @FILE@',
    },
  ],
]);
