import { z } from 'zod';
import { type DeepReadonly, duration, headerName, httpUrl, list, size, plainText } from './fields.ts';
import { setHeaders } from './forwarding.ts';
import { clientTls } from './redis.ts';

const upstream = z.strictObject({
  url: httpUrl({ originOnly: true }).meta({ description: 'Where it listens.' }),
  weight: z.int().min(1).max(1000).default(1).meta({ description: 'Its share of the requests.' }),
});

const healthCheck = z.strictObject({
  enabled: z
    .boolean()
    .default(false)
    .meta({ description: 'Checks every upstream regularly and does not use those that fail.' }),
  path: plainText()
    .regex(/^\//, { error: 'begins with "/"' })
    .default('/')
    .meta({ description: 'The path to request.' }),
  interval: duration({ min: 100 }).prefault('10s').meta({ description: 'Time between two checks.' }),
  timeout: duration({ min: 10 }).prefault('2s').meta({ description: 'How long an answer may take.' }),
  healthy_threshold: z
    .int()
    .min(1)
    .max(100)
    .default(2)
    .meta({ description: 'Successes in a row until it is used again.' }),
  unhealthy_threshold: z
    .int()
    .min(1)
    .max(100)
    .default(3)
    .meta({ description: 'Failures in a row until it is no longer used.' }),
});

const urlPolicy = z.strictObject({
  allowed_schemes: list(z.enum(['http', 'https']), 2)
    .min(1)
    .default(['http', 'https'])
    .meta({ description: 'Schemes that a URL from the external service may have.' }),
  allowed_hosts: list(plainText({ max: 253 }))
    .default([])
    .meta({ description: 'The only hosts it may name. Empty: any.' }),
  allowed_ports: list(z.int().min(1).max(65_535))
    .default([])
    .meta({ description: 'The only ports it may name. Empty: any.' }),
  deny_private_networks: z.boolean().default(true).meta({
    description: 'Refuses private, loopback, link-local and metadata addresses, except for `allowed_hosts`.',
  }),
});

const transport = z.strictObject({
  backend_protocol: z.enum(['auto', 'h1', 'h2']).default('auto').meta({
    description:
      'The protocol used with upstreams. `auto`: HTTP/2 if TLS negotiates it or the request is gRPC.',
  }),
  dial_timeout: duration({ min: 1 })
    .prefault('5s')
    .meta({ description: 'How long connecting may take, including TLS.' }),
  tls: z.strictObject(clientTls()).prefault({}).meta({ description: 'Certificates for https upstreams.' }),
});

/** What a service behind the gateway is, and how it is called. */
const servers = {
  url: httpUrl({ originOnly: true }).optional().meta({
    description: 'The service behind the gateway. Without it and `upstreams`: requests get a 502.',
  }),
  upstreams: list(upstream, 256)
    .default([])
    .meta({ description: 'Several servers of one service, instead of `url`.' }),
  load_balancing: z
    .enum(['roundRobin', 'leastConnections'])
    .default('roundRobin')
    .meta({ description: 'Which upstream gets the next request.' }),
  health_check: healthCheck.prefault({}).meta({ description: 'Health checks.' }),
  timeout: duration({ min: 1 })
    .prefault('30s')
    .meta({ description: 'How long the response headers may take; then a 504.' }),
  body_idle_timeout: duration()
    .prefault('5m')
    .meta({ description: 'How long a response may be silent. 0: no limit.' }),
  max_conns: z.int().min(1).max(100_000).default(256).meta({ description: 'Connections per upstream.' }),
  max_conns_per_client: z.int().min(1).max(100_000).optional().meta({
    description:
      'Connections per upstream that one client address may hold; over HTTP/2, the streams of as many. Default: half of `max_conns`.',
  }),
  idle_conn_timeout: duration({ min: 100 })
    .prefault('90s')
    .meta({ description: 'How long an unused connection is kept.' }),
  max_pending_requests: z.int().min(0).max(1_000_000).default(1024).meta({
    description: 'Requests that may wait for a connection; further ones get a 503.',
  }),
  max_retries: z.int().min(0).max(5).default(1).meta({
    description: 'How often an idempotent request without a body is retried after its connection broke.',
  }),
  preserve_host: z.boolean().default(true).meta({ description: "Passes the client's `Host` to upstreams." }),
  transport: transport.prefault({}).meta({ description: 'Connections to upstreams.' }),
};

/** A service for the rules that name it. */
export const namedBackend = z.strictObject(servers);

export type BackendServers = DeepReadonly<z.output<typeof namedBackend>>;

export const backend = z.strictObject({
  ...servers,
  max_request_body_size: size()
    .prefault('1GiB')
    .meta({ description: 'The largest body of a request; more gets a 413. 0: no limit.' }),
  request_buffer_size: size({ max: 2 ** 24 })
    .prefault('16KiB')
    .meta({
      description:
        'How much of the body of a request must have come before an upstream is asked: smaller bodies whole, larger ones so much of them. A body of unknown length waits one second at most, and one of gRPC not at all. 0: nothing.',
    }),
  response_buffer_size: size({ max: 2 ** 24 })
    .prefault('64KiB')
    .meta({
      description:
        'How much of a response is kept for a client that reads slowly, so that its upstream need not wait; all clients together at most 64 MiB. 0: only what has been read already.',
    }),
  forwarded_headers: list(z.enum(['x-forwarded', 'forwarded']), 2)
    .default(['x-forwarded'])
    .meta({
      description:
        'Headers that tell upstreams who the client is: `X-Forwarded-For/-Proto/-Host`, and `Forwarded` (RFC 7239).',
    }),
  remove_request_headers: list(headerName(), 256)
    .default([
      'X-Original-URL',
      'X-Rewrite-URL',
      'X-HTTP-Method-Override',
      'X-HTTP-Method',
      'X-Method-Override',
    ])
    .meta({
      description:
        'Headers of clients that upstreams do not get. The default are those by which frameworks see another path or method than the rules did.',
    }),
  set_request_headers: setHeaders().meta({
    description:
      'Headers that upstreams get, by name, instead of what the client sent under that name. Rules can set others.',
  }),
  url_policy: urlPolicy
    .prefault({})
    .meta({ description: 'Which `backend_url` of the external service is followed.' }),
});
