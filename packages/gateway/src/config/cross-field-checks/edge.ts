// What the gateway does with a request beside limiting it.
import { nearest } from '../suggestion.ts';
import { warnWhen, when, type CrossFieldCheck } from './finding.ts';

export const corsIsSafe: CrossFieldCheck = ({ cors }) => [
  ...when(cors !== undefined && cors.allow_credentials && cors.allowed_origins.includes('*'), {
    paths: [
      ['cors', 'allow_credentials'],
      ['cors', 'allowed_origins'],
    ],
    message:
      'cors.allow_credentials is true and cors.allowed_origins contains "*", so every page could act for the users of the service; browsers refuse it',
    suggestion: 'List the origins, or set allow_credentials to false.',
  }),
  ...warnWhen(cors !== undefined && cors.allowed_origins.length > 1 && cors.allowed_origins.includes('*'), {
    paths: [['cors', 'allowed_origins']],
    message: 'cors.allowed_origins contains "*", so the other origins have no effect',
    suggestion: 'Remove "*", or the others.',
  }),
];

export const rulesNameTheirBackends: CrossFieldCheck = ({ rate_limit: { rules }, backends }) => [
  ...Object.entries(backends).flatMap(([name, { url, upstreams }]) =>
    when(url === undefined && upstreams.length === 0, {
      paths: [['backends', name]],
      message: `backends.${name} has neither url nor upstreams`,
      suggestion: 'Set its url.',
    }),
  ),
  ...rules.flatMap(({ backend }, at) => {
    if (backend === undefined || Object.hasOwn(backends, backend)) return [];
    const names = Object.keys(backends);
    const meant = nearest(backend, names);
    const known = names.length === 0 ? 'Define it in backends.' : `Backends: ${names.join(', ')}.`;
    return when(true, {
      paths: [['rate_limit', 'rules', at, 'backend']],
      message: `rate_limit.rules[${at}].backend: there is no backend named ${backend}`,
      suggestion: meant === undefined ? known : `Did you mean ${meant}?`,
    });
  }),
];

export const usageEventsGoSomewhere: CrossFieldCheck = ({ usage_events: events }) => [
  ...when(events.enabled && (events.file === undefined) === (events.http === undefined), {
    paths: [
      ['usage_events', 'enabled'],
      ['usage_events', 'file'],
      ['usage_events', 'http'],
    ],
    message: `usage_events.enabled needs ${events.file === undefined ? 'one' : 'only one'} of usage_events.file and usage_events.http`,
    suggestion: 'Keep one of them.',
  }),
  ...when(events.batch_size > events.max_queued, {
    paths: [
      ['usage_events', 'batch_size'],
      ['usage_events', 'max_queued'],
    ],
    message: `usage_events.batch_size is ${events.batch_size}, more than usage_events.max_queued, ${events.max_queued}`,
    suggestion: 'A batch has to fit into the queue.',
  }),
];

export const authorizationHasAService: CrossFieldCheck = ({ authorization: { enabled, http, grpc } }) =>
  when(enabled && (http === undefined) === (grpc === undefined), {
    paths: [
      ['authorization', 'enabled'],
      ['authorization', 'http'],
      ['authorization', 'grpc'],
    ],
    message: `authorization.enabled needs ${http === undefined ? 'one' : 'only one'} of authorization.http and authorization.grpc`,
    suggestion: 'Say where the service is, in one of the two.',
  });
