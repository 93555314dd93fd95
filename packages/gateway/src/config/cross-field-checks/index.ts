import type { Config } from '../config.ts';
import * as connections from './connections.ts';
import { costsCanBeSettled } from './limits.ts';
import * as edge from './edge.ts';
import type { CrossFieldFinding, CrossFieldCheck } from './finding.ts';
import * as identity from './identity.ts';
import * as limits from './limits.ts';
import { rulesAreReachable } from './reach.ts';
import { listsMeanSomebody, overridesMeanSomebody } from './written-keys.ts';

const CHECKS: readonly CrossFieldCheck[] = [
  connections.serverTls,
  connections.clientTls,
  connections.redisTopology,
  connections.workersShareState,
  connections.clientAddress,
  connections.upstreams,
  connections.adminIsClosed,
  connections.serviceIsClosed,
  connections.tracingHasAnEndpoint,
  limits.defaultPolicyIsWhole,
  limits.keysAreWhole,
  limits.policiesAreWhole,
  overridesMeanSomebody,
  listsMeanSomebody,
  limits.rulesHaveTheirNames,
  rulesAreReachable,
  limits.rulesNameTheirPolicies,
  costsCanBeSettled,
  limits.descriptorsNameTheirPolicies,
  limits.parametersExist,
  identity.strategiesCanBeProven,
  identity.apiKeysAreWhole,
  identity.plansAreWhole,
  identity.tokensAreSafe,
  identity.identityHeadersDiffer,
  limits.externalService,
  limits.headersAgree,
  edge.corsIsSafe,
  edge.rulesNameTheirBackends,
  edge.usageEventsGoSomewhere,
  edge.authorizationHasAService,
];

export function crossFieldFindings(config: Config): readonly CrossFieldFinding[] {
  return CHECKS.flatMap((check) => check(config));
}
