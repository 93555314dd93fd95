import { explanation, type Explanation } from '../rules/explain/explanation.ts';
import {
  askAdmin,
  complaintOf,
  notAGateway,
  type AdminClientOptions,
  type AdminRequest,
} from './admin-client.ts';
import { EXIT, type ExitCode, type Host, paintFor, type Paint, CommandFailure } from './host.ts';

export interface ExplainOptions extends AdminClientOptions {
  readonly method?: string | undefined;
  readonly path?: string | undefined;
  readonly host?: string | undefined;
  readonly client?: string | undefined;
  readonly header?: readonly string[] | undefined;
  readonly json?: boolean | undefined;
}

/** Tells why a request was denied or not: by its id, or made up by options. */
export async function explain(
  host: Host,
  id: string | undefined,
  options: ExplainOptions,
): Promise<ExitCode> {
  const answer = await askAdmin(host, options, requestOf(id, options));
  if (answer.status !== 200) throw new CommandFailure(complaintOf(answer));
  const { data: story, error } = explanation.safeParse(answer.body);
  // A newer gateway may say more.
  const wrong = error?.issues.some(({ code }) => code !== 'unrecognized_keys') ?? false;
  if (wrong) throw notAGateway(answer.origin);
  const whole = options.json === true || story === undefined;
  host.write(
    whole
      ? `${JSON.stringify(answer.body, undefined, 2)}\n`
      : `${storyInLines(story, paintFor(host.env, host.outputIsTerminal)).join('\n')}\n`,
  );
  return EXIT.ok;
}

function requestOf(id: string | undefined, options: ExplainOptions): AdminRequest {
  const { method, path, host, client, header } = options;
  if (id !== undefined) {
    if (path === undefined && method === undefined && header === undefined) {
      return { method: 'GET', path: `/v1/explain/${encodeURIComponent(id)}` };
    }
    throw new CommandFailure('Give the id of a request, or make one up with --path; not both.');
  }
  if (path === undefined) {
    throw new CommandFailure(
      'Give the id of a request, as a log or the body of a 429 has it, or make a request up: --path /login.',
    );
  }
  return {
    method: 'POST',
    path: '/v1/explain',
    body: { method: method ?? 'GET', path, host, client, headers: header?.map(pairOf) },
  };
}

function pairOf(line: string): readonly [name: string, value: string] {
  const colon = line.indexOf(':');
  if (colon > 0) return [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
  throw new CommandFailure(
    `--header is ${JSON.stringify(line)}; expected a name and a value, such as "X-Tenant: acme".`,
  );
}

function storyInLines(story: Explanation, paint: Paint): readonly string[] {
  const { client, rules, policies, decidedBy, toBeAdmitted, request } = story;
  const title = (text: string): string => paint('bold', text);
  return [
    paint(story.outcome === 'denied' ? 'red' : 'green', story.summary),
    '',
    ...(request.id === '' || !story.recorded ? [] : [`${title('Request')}   ${request.id} at ${story.at}`]),
    `${title('Client')}    ${client.address ?? 'unknown'}${client.countedAs === undefined || client.countedAs === client.address ? '' : `, counted as ${client.countedAs}`}: ${client.because}`,
    `${title('Rule')}      ${story.rule ?? (story.rulesAsked ? 'none matches' : 'none was asked')}`,
    ...rules.map(({ rule, matched, because }) => `  ${matched ? '*' : '-'} ${rule}: ${because}`),
    `${title('Keys')}      ${story.keys.length === 0 ? 'none' : story.keys.join(', ')}`,
    ...(policies.length === 0 ? [`${title('Policies')}  none was asked`] : [title('Policies')]),
    ...policies.map((policy) =>
      decidedBy.source === 'block' && !policy.shadow ? blockInLine(policy) : policyInLine(policy),
    ),
    ...(story.settlement === undefined ? [] : [`${title('Cost')}      ${costInWords(story.settlement)}`]),
    `${title('Decided')}   by ${decidedBy.instance}, ${decidedBy.source ?? 'no store'} (${decidedBy.store}), the clock is ${decidedBy.clock}, configuration ${decidedBy.generation ?? 'unknown'}`,
    ...(decidedBy.cause === undefined ? [] : [`          ${decidedBy.cause}`]),
    ...(toBeAdmitted.length === 0 ? [] : ['', title('To be admitted')]),
    ...toBeAdmitted.map((advice) => `  ${advice}`),
  ];
}

function costInWords({ by, reserved, cost, estimated }: NonNullable<Explanation['settlement']>): string {
  const before = `${reserved} charged before`;
  if (cost === undefined) return `${before}, to be settled by ${by}: the request is under way`;
  return `${before}, ${cost} in the end${estimated === true ? ', an estimate' : ''}, settled by ${by}`;
}

/** A block is no question of what is left, and where one holds no policy is asked. */
function blockInLine({
  policy,
  key,
  allowed,
  retryAfterMs,
  fullAgainAt,
}: Explanation['policies'][number]): string {
  if (allowed) return `  * ${policy} was not asked about ${key}`;
  return `  x ${policy} denies ${key}: blocked until ${retryAfterMs === null ? 'somebody ends it' : fullAgainAt}`;
}

function policyInLine({
  policy,
  key,
  shadow,
  allowed,
  before,
  after,
  limit,
  cost,
  fullAgainAt,
  penalty,
}: Explanation['policies'][number]): string {
  const verdict = `${allowed ? 'admits' : 'denies'}${shadow ? ' (shadow mode)' : ''}`;
  return `  ${allowed ? '*' : 'x'} ${policy} ${verdict} ${key}: ${before} of ${limit} left before, ${after} after; it costs ${cost}; full again at ${fullAgainAt}${penalty === undefined ? '' : `; blocked: ${penalty}`}`;
}
