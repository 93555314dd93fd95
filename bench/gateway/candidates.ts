import { fileURLToPath } from 'node:url';

import type { Candidate } from './candidate.ts';
import { envoy } from './envoy-candidates.ts';
import { nginxCommand } from './upstream.ts';

const GATEWAY = fileURLToPath(new URL('../../../packages/gateway/dist/main.js', import.meta.url));
const PEER = fileURLToPath(new URL('peer-child.js', import.meta.url));

const LIMIT_ON = `
rate_limit:
  average: 1000000
  burst: 1000000
  period: "1s"`;

const LIMIT_REACHED = `
rate_limit:
  average: 1
  burst: 1
  period: "1h"`;

interface Variant {
  readonly denies?: boolean;
  /** Worker processes. One is the usual case: nothing about it is configured. */
  readonly workers?: number;
}

function spillgate(
  id: string,
  limits: Candidate['limits'],
  { denies = false, workers }: Variant = {},
): Candidate {
  return {
    id,
    name: `Spillgate${denies ? ', every request denied' : workersOf(workers)}`,
    role: 'ours',
    limits,
    denies,
    file: (port, { upstreamPort, redisPort }) => `
server:
  address: "127.0.0.1:${port}"${workers === undefined ? '' : `\n  workers: ${workers}`}
backend:
  url: "http://127.0.0.1:${upstreamPort}"
admin:
  enabled: false
logging:
  level: warn
  access_log_enabled: false
  decision_log: "off"
${limits === 'none' ? '' : denies ? LIMIT_REACHED : LIMIT_ON}
${limits === 'Redis' ? `redis:\n  endpoints: ["127.0.0.1:${redisPort}"]` : ''}
`,
    command: (_, file) => [process.execPath, GATEWAY, 'run', '--config', file],
  };
}

function workersOf(workers: number | undefined): string {
  return workers === undefined ? '' : `, ${workers} worker${workers === 1 ? '' : 's'}`;
}

function nginx(id: string, limits: 'none' | 'memory', { denies = false, workers }: Variant = {}): Candidate {
  return {
    id,
    name: `nginx${limits === 'none' ? '' : ', limit_req'}${denies ? ', every request denied' : workersOf(workers)}`,
    role: 'native',
    limits,
    needs: ['nginx'],
    denies,
    file: (port, { upstreamPort }) => `
daemon off;
${workers === undefined ? 'master_process off' : `worker_processes ${workers}`};
pid ${id}.pid;
error_log stderr crit;
events { worker_connections 4096; }
http {
  access_log off;
  keepalive_requests 1000000000;
  limit_req_zone $binary_remote_addr zone=clients:10m rate=${denies ? '1r/m' : '1000000r/s'};
  limit_req_status 429;
  upstream backend {
    server 127.0.0.1:${upstreamPort};
    keepalive 256;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port};
    location / {
      ${limits === 'none' ? '' : `limit_req zone=clients burst=${denies ? 1 : 1_000_000} nodelay;`}
      proxy_pass http://backend;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $remote_addr;
    }
  }
}
`,
    command: (_, file) => nginxCommand(file),
  };
}

function haproxy(id: string, limits: 'none' | 'memory'): Candidate {
  return {
    id,
    name: limits === 'none' ? 'haproxy' : 'haproxy, stick-table',
    role: 'native',
    limits,
    needs: ['haproxy'],
    file: (port, { upstreamPort }) => `
global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  option forwardfor
  http-reuse always
frontend clients
  bind 127.0.0.1:${port}
${
  limits === 'none'
    ? ''
    : `  stick-table type ip size 100k expire 60s store http_req_rate(1s)
  http-request track-sc0 src
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt 1000000 }`
}
  default_backend service
backend service
  server only 127.0.0.1:${upstreamPort}
`,
    command: (_, file) => ['haproxy', '-f', file],
  };
}

function peer(id: string, name: string, role: 'peer' | 'reference' = 'peer'): Candidate {
  return {
    id,
    name,
    role,
    limits: 'none',
    command: (port, _, { upstreamPort }) => [process.execPath, PEER, id, String(port), String(upstreamPort)],
  };
}

/** The one list of what the suite compares, ours first. */
export const CANDIDATES: readonly Candidate[] = [
  spillgate('spillgate', 'none'),
  spillgate('spillgate-memory', 'memory'),
  spillgate('spillgate-redis', 'Redis'),
  spillgate('spillgate-denied', 'memory', { denies: true }),
  peer('http-proxy-3', 'http-proxy-3'),
  peer('reply-from', '@fastify/reply-from'),
  peer('bare', 'node:http and undici, nothing else', 'reference'),
  peer('front-http', 'node:http that answers itself', 'reference'),
  peer('front-own', 'a parser of our own that answers itself', 'reference'),
  nginx('nginx', 'none'),
  nginx('nginx-limit', 'memory'),
  nginx('nginx-denied', 'memory', { denies: true }),
  haproxy('haproxy', 'none'),
  haproxy('haproxy-limit', 'memory'),
  envoy('envoy', 'none'),
  envoy('envoy-local', 'memory'),
  envoy('envoy-ratelimit', 'Redis'),
];

/** One worker and two: Spillgate's share their limits through Redis, those of nginx in its memory. */
export const WITH_WORKERS: readonly Candidate[] = [
  spillgate('spillgate-1', 'Redis', { workers: 1 }),
  spillgate('spillgate-2', 'Redis', { workers: 2 }),
  nginx('nginx-1', 'memory', { workers: 1 }),
  nginx('nginx-2', 'memory', { workers: 2 }),
];
