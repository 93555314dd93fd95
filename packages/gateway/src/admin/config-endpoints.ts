import { effectiveSettings, maskedConfig } from '../config/effective.ts';
import type { ReloadRecord, ReloadResult } from './control.ts';
import { defineEndpoint, json, type AdminParts, type Endpoint } from './endpoint.ts';
import { AdminProblem } from './problems.ts';
import { checkedConfig, configText, liveConfig, reloaded } from './schemas.ts';

/** A text of so many bytes, as JSON writes it. */
const MAX_CHECKED_BYTES = 2_097_152;

/** What is in use, what was, and what would be. */
export const CONFIG_ENDPOINTS: readonly Endpoint[] = [
  defineEndpoint({
    id: 'config',
    method: 'GET',
    path: '/v1/config',
    summary:
      'The current configuration without its secrets, where each value came from, and the last 20 reloads with what each changed.',
    access: 'token',
    answers: { 200: json('The configuration.', liveConfig) },
    handle: (_, { control }) => ({ status: 200, value: configOf({ control }) }),
  }),
  defineEndpoint({
    id: 'checkConfig',
    method: 'POST',
    path: '/v1/config/check',
    effect: 'none',
    summary:
      'What another configuration would change, or why it would be refused: the file as it is now, or `text` in its place. The environment holds as it does for the file. Takes nothing into use, opens nothing; of a `text`, the files that it names are not read.',
    access: 'token',
    body: configText,
    maxBodyBytes: MAX_CHECKED_BYTES,
    answers: { 200: json('What it would do.', checkedConfig) },
    async handle({ body }, { control }) {
      const { problems, differences } = await control.checkConfig(body?.text);
      const accepted = differences !== undefined;
      return { status: 200, value: { accepted, problems, differences: differences ?? NO_DIFFERENCES } };
    },
  }),
  defineEndpoint({
    id: 'reload',
    method: 'POST',
    path: '/v1/reload',
    summary: 'Reloads the configuration if it is valid.',
    access: 'token',
    answers: { 200: json('It is in use, or already was.', reloaded) },
    problems: ['RELOAD_REFUSED'],
    async handle(_, { control }) {
      const before = { generation: control.live().generation };
      const result = await control.reload();
      if (result.outcome === 'refused') throw refused(result);
      const differences = result.outcome === 'applied' ? control.lastReload()?.differences : undefined;
      const after = { generation: result.generation, differences };
      return { status: 200, value: result, change: { before, after } };
    },
  }),
];

const NO_DIFFERENCES = { total: 0, items: [] };

function configOf({ control }: Pick<AdminParts, 'control'>): object {
  const { config, originOf, generation, loadedAt } = control.live();
  const names = control.apiKeys();
  const [last, ...earlier] = control.reloads().map(shownReload);
  return {
    generation,
    loadedAt: loadedAt.toISOString(),
    lastReload: last,
    reloads: last === undefined ? [] : [last, ...earlier],
    config: maskedConfig(config, names),
    settings: effectiveSettings(config, originOf, names),
  };
}

function shownReload({ at, ...rest }: ReloadRecord): object {
  return { ...rest, at: at.toISOString() };
}

function refused({ generation, problems }: ReloadResult): AdminProblem {
  const errors = problems.filter(({ severity }) => severity === 'error').length;
  return new AdminProblem(
    'RELOAD_REFUSED',
    `The configuration has ${errors} ${errors === 1 ? 'error' : 'errors'}; expected none: correct what the list of problems names. Generation ${generation} stays in use.`,
    { more: { problems } },
  );
}
