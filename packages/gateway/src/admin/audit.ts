import type { IncomingMessage } from 'node:http';
import { operatorsKey } from '../rules/policy-readers.ts';
import { loggable } from '../telemetry/logger.ts';
import type { Log } from '../telemetry/log.ts';
import type { AdminCaller, AdminParts, AdminReply } from './endpoint.ts';
import type { Route } from './endpoints.ts';
import { AdminProblem } from './problems.ts';

const MAX_LOGGED_LENGTH = 128;

/** A request that may change something. */
interface Attempt {
  readonly request: IncomingMessage;
  readonly route: Route;
  readonly caller: AdminCaller;
  readonly parts: AdminParts;
}

/** A line in the log for every change and for every attempt: who, from where, what, what it was and what it is. */
export async function audited(
  attempt: Attempt,
  log: Log,
  write: () => Promise<AdminReply>,
): Promise<AdminReply> {
  const action = actionOf(attempt);
  try {
    const reply = await write();
    log.info({ ...action, status: reply.status, ...reply.change }, 'admin write');
    return reply;
  } catch (failure) {
    const refused = failure instanceof AdminProblem ? failure : undefined;
    log.warn({ ...action, status: refused?.status ?? 500, code: refused?.code ?? 'INTERNAL' }, 'admin write');
    throw failure;
  }
}

function actionOf({ request, route, caller, parts }: Attempt): object {
  const { via, role, session } = caller;
  return {
    audit: true,
    action: route.endpoint.id,
    ...whatOf(route.parameters, parts),
    remote: request.socket.remoteAddress,
    via,
    role,
    ...(session === undefined ? {} : { session: session.name }),
  };
}

/** A key that is the secret of a client is written as it is counted: as its hash. */
function whatOf(parameters: Route['parameters'], { control }: AdminParts): object {
  const { policy, key } = parameters;
  const named =
    policy === undefined || key === undefined
      ? parameters
      : { ...parameters, key: operatorsKey(control.live().config, policy, key, control.apiKeys()) };
  return Object.fromEntries(
    Object.entries(named).map(([name, value]) => [name, loggable(value, MAX_LOGGED_LENGTH)]),
  );
}
