import { z } from 'zod';
import { shown } from '../config/shown.ts';
import { defineEndpoint, json, type Endpoint } from './endpoint.ts';
import { AdminProblem } from './problems.ts';

const state = z.strictObject({
  enabled: z.boolean().meta({ description: 'Requests get a 503.' }),
  configured: z.boolean().meta({ description: '`maintenance.enabled` of the configuration.' }),
  switchedTo: z
    .boolean()
    .optional()
    .meta({ description: 'What an operator said; it holds until the gateway restarts.' }),
});

const STATES: ReadonlyMap<string, boolean | undefined> = new Map([
  ['on', true],
  ['off', false],
  ['configured', undefined],
]);

export const MAINTENANCE_ENDPOINTS: readonly Endpoint[] = [
  defineEndpoint({
    id: 'maintenance',
    method: 'GET',
    path: '/v1/maintenance',
    summary: 'Whether requests get a 503 for now, and who said so.',
    access: 'token',
    answers: { 200: json('The state.', state) },
    handle: (_, { control }) => ({ status: 200, value: control.maintenance() }),
  }),
  defineEndpoint({
    id: 'switchMaintenance',
    method: 'POST',
    path: '/v1/maintenance/{state}',
    summary:
      'Switches maintenance `on` or `off` in this gateway and its workers, whatever the configuration says; `configured` leaves it to the configuration again.',
    access: 'token',
    answers: { 200: json('The state.', state) },
    handle({ parameters: { state: wanted = '' } }, { control }) {
      if (!STATES.has(wanted)) {
        throw new AdminProblem(
          'INVALID_REQUEST',
          `The state is ${shown(wanted)}; expected on, off or configured.`,
        );
      }
      const before = control.maintenance();
      control.switchMaintenance(STATES.get(wanted));
      const after = control.maintenance();
      return { status: 200, value: after, change: { before, after } };
    },
  }),
];
