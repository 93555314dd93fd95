// Who is asking: what does not fit together, and what is less safe than it looks.
import { isIP } from 'node:net';
import type { Config } from '../config.ts';
import { pathText, type Path } from '../path.ts';
import { MAX_PLAN_LIMITS, type ApiKeyEntry, type JwtConfig } from '../schema/identity.ts';
import { strategyParts, type KeyStrategy } from '../schema/rate-limit.ts';
import { repeatedAt, warnWhen, when, type CrossFieldCheck, type CrossFieldFinding } from './finding.ts';

const API_KEYS: Path = ['identity', 'api_keys'];
const JWT: Path = ['identity', 'jwt'];

/** A key strategy needs somebody who can prove what it reads. */
export const strategiesCanBeProven: CrossFieldCheck = ({ rate_limit: limits, identity, server }) => {
  const used = strategyParts(limits);
  const uses = (fits: (key: KeyStrategy) => boolean): boolean => used.some(fits);
  const paths = (needed: Path): readonly [Path, Path] => [['rate_limit', 'key_strategy'], needed];
  return [
    ...when(uses(({ type }) => type === 'apiKey') && identity.api_keys === undefined, {
      paths: paths(API_KEYS),
      message: 'a key is of type apiKey, but identity.api_keys is not set, so that nobody has one',
      suggestion: 'Add identity.api_keys with a file or with keys.',
    }),
    ...when(uses((key) => key.type === 'jwtClaim' && key.verified) && identity.jwt === undefined, {
      paths: paths(JWT),
      message: 'a key is a verified claim, but identity.jwt does not say how tokens are checked',
      suggestion: 'Add identity.jwt with jwks, issuer and algorithms.',
    }),
    ...when(
      uses(({ type }) => type === 'clientCertificate') &&
        (!server.tls.enabled || server.tls.client_auth === 'none'),
      {
        paths: paths(['server', 'tls', 'client_auth']),
        message: 'a key is a client certificate, but the gateway asks no client for one',
        suggestion: 'Set server.tls.enabled, client_auth and client_ca_file.',
      },
    ),
  ];
};

export const apiKeysAreWhole: CrossFieldCheck = ({ identity, rate_limit: limits }) => {
  const { api_keys: settings, jwt, plans } = identity;
  if (settings === undefined) {
    return when(Object.keys(plans).length > 0, {
      paths: [['identity', 'plans'], API_KEYS],
      message: 'identity.plans has no effect without identity.api_keys',
      suggestion: 'Add identity.api_keys with a file or with keys.',
    });
  }
  const sameHeader = jwt?.header_name.toLowerCase() === settings.header_name.toLowerCase();
  return [
    ...when(settings.file === undefined && settings.keys.length === 0, {
      paths: [API_KEYS],
      message: 'identity.api_keys has neither a file nor keys, so that every key gets a 401',
      suggestion: 'Name a file, and add keys to it with spillgate api-keys add.',
    }),
    ...when(sameHeader, {
      paths: [
        [...API_KEYS, 'header_name'],
        [...JWT, 'header_name'],
      ],
      message: `identity.api_keys and identity.jwt both read the header ${settings.header_name}`,
      suggestion: 'Give one of them another header_name.',
    }),
    ...repeatedNames(settings.keys),
    ...settings.keys.flatMap(({ plan }, at) =>
      when(plan !== undefined && !Object.hasOwn(plans, plan), {
        paths: [
          [...API_KEYS, 'keys', at, 'plan'],
          ['identity', 'plans'],
        ],
        message: `${pathText([...API_KEYS, 'keys', at])} has the plan ${plan ?? ''}, which is not in identity.plans`,
        suggestion: `Plans: ${Object.keys(plans).join(', ') || 'none'}.`,
      }),
    ),
    ...warnWhen(settings.query_parameter !== undefined, {
      paths: [[...API_KEYS, 'query_parameter']],
      message:
        'identity.api_keys.query_parameter lets keys stand in URLs, which end up in logs, histories and Referer headers',
      suggestion: 'Remove it as soon as all clients can send the header.',
    }),
    ...warnWhen(limits.external.enabled && Object.keys(plans).length > 0, {
      paths: [
        ['identity', 'plans'],
        ['rate_limit', 'external', 'enabled'],
      ],
      message: 'identity.plans holds only for requests for which rate_limit.external names no policies',
      suggestion: 'Let the external service know the plans, or remove one of the two.',
    }),
  ];
};

function repeatedNames(keys: readonly ApiKeyEntry[]): readonly CrossFieldFinding[] {
  const report = (at: number, what: string): readonly CrossFieldFinding[] =>
    when(true, {
      paths: [[...API_KEYS, 'keys', at]],
      message: `identity.api_keys.keys has two entries with the same ${what}`,
      suggestion: 'Remove one of them.',
    });
  const hashes = keys.flatMap(({ hash, previous }, at) =>
    (previous === undefined ? [hash] : [hash, previous.hash]).map((one) => ({ one, at })),
  );
  return [
    ...repeatedAt(keys.map(({ name }) => name)).flatMap((at) => report(at, 'name')),
    ...repeatedAt(hashes.map(({ one }) => one)).flatMap((place) => report(hashes[place]?.at ?? 0, 'hash')),
  ];
}

/** Policies of plans exist, and fit into one check together with what a rule adds. */
export const plansAreWhole: CrossFieldCheck = (config) => {
  const { identity, rate_limit: limits } = config;
  return Object.entries(identity.plans).flatMap(([name, { policies }]) => {
    const path: Path = ['identity', 'plans', name, 'policies'];
    const own = Math.max(
      0,
      ...limits.rules.map((rule) => rule.policies.filter(({ key }) => key !== undefined).length),
    );
    return [
      ...policies.flatMap((policy, at) =>
        when(!Object.hasOwn(limits.policies, policy), {
          paths: [
            [...path, at],
            ['rate_limit', 'policies'],
          ],
          message: `${pathText([...path, at])}: there is no policy named ${policy}`,
          suggestion: `Policies: ${Object.keys(limits.policies).join(', ') || 'none'}.`,
        }),
      ),
      ...repeatedAt(policies).flatMap((at) =>
        when(true, {
          paths: [[...path, at]],
          message: `${pathText(path)} names ${policies[at] ?? ''} twice`,
          suggestion: 'Remove one of them.',
        }),
      ),
      ...when(policies.length + own > MAX_PLAN_LIMITS, {
        paths: [path],
        message: `${pathText(path)} and the policies of a rule with their own keys are ${policies.length + own}; expected at most ${MAX_PLAN_LIMITS} at once`,
        suggestion: 'Use fewer policies.',
      }),
    ];
  });
};

export const tokensAreSafe: CrossFieldCheck = ({ identity: { jwt } }) => {
  if (jwt === undefined) return [];
  const { jwks, audience } = jwt;
  return [
    ...when((jwks.url === undefined) === (jwks.file === undefined), {
      paths: [[...JWT, 'jwks']],
      message: 'identity.jwt.jwks needs either url or file',
      suggestion: 'Name the jwks_uri of the issuer, or a file with its public keys.',
    }),
    ...warnWhen(audience.length === 0, {
      paths: [[...JWT, 'audience'], JWT],
      message:
        'identity.jwt.audience is empty, so that a token which the issuer made for another service passes too',
      suggestion: 'Name the audience of your API.',
    }),
    ...urlIsSafe(jwt),
  ];
};

function urlIsSafe({ jwks }: JwtConfig): readonly CrossFieldFinding[] {
  const path: Path = [...JWT, 'jwks', 'url'];
  if (jwks.url === undefined) return [];
  const { protocol, hostname } = new URL(jwks.url);
  const host = hostname.replace(/^\[|\]$/g, '');
  const local = host === 'localhost' || host === '::1' || host.startsWith('127.');
  return [
    ...when(local && !jwks.allow_private_network, {
      paths: [path],
      message: `identity.jwt.jwks.url leads to ${host}, an address of this machine, and identity.jwt.jwks.allow_private_network is false`,
      suggestion: 'Set allow_private_network to true if that is meant.',
    }),
    ...warnWhen(protocol === 'http:' && !local, {
      paths: [path],
      message:
        'identity.jwt.jwks.url is not https, so that anyone in between can put keys of their own there',
      suggestion: 'Use https.',
    }),
    ...warnWhen(jwks.tls.insecure_skip_verify, {
      paths: [[...JWT, 'jwks', 'tls', 'insecure_skip_verify']],
      message:
        'identity.jwt.jwks.tls.insecure_skip_verify lets anyone in between put keys of their own there',
      suggestion: 'Name the authority in ca_file instead.',
    }),
    ...warnWhen(isIP(host) !== 0 && !local && protocol === 'https:' && jwks.tls.server_name === undefined, {
      paths: [path],
      message: `identity.jwt.jwks.url names the address ${host}, which few certificates do`,
      suggestion: 'Use the name of the host, or set tls.server_name.',
    }),
  ];
}

/** Names of headers that tell backends who is asking must not be those that carry the proof. */
export const identityHeadersDiffer: CrossFieldCheck = ({ identity, server }: Config) => {
  const names = Object.entries(identity.headers);
  const taken = [
    server.request_id_header,
    identity.api_keys?.header_name,
    identity.jwt?.header_name,
    'Host',
    'Cookie',
    'Authorization',
    'Content-Length',
    'Content-Type',
  ].map((name) => name?.toLowerCase());
  const lower = names.map(([, name]) => name.toLowerCase());
  return names.flatMap(([setting, name], at) =>
    when(taken.includes(name.toLowerCase()) || lower.indexOf(name.toLowerCase()) < at, {
      paths: [['identity', 'headers', setting]],
      message: `identity.headers.${setting} is ${name}, which already carries something else`,
      suggestion: 'Use a header of its own.',
    }),
  );
};
