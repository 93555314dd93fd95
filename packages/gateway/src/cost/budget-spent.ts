import type { LlmProtocol } from './token-usage.ts';

const MESSAGE = 'The budget of tokens is spent: this answer ends here.';

/** The last event of a stream whose budget is spent, as its protocol says that something went wrong. */
export function budgetSpentEvent(protocol: LlmProtocol): Buffer {
  switch (protocol) {
    case 'anthropic':
      return event({ type: 'error', error: { type: 'rate_limit_error', message: MESSAGE } }, 'error');
    case 'openaiResponses':
      return event({ type: 'error', code: 'rate_limit_exceeded', message: MESSAGE, param: null }, 'error');
    default: {
      const error = { message: MESSAGE, type: 'rate_limit_error', param: null, code: 'rate_limit_exceeded' };
      return event({ error });
    }
  }
}

function event(data: object, name?: string): Buffer {
  return Buffer.from(`${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`);
}
