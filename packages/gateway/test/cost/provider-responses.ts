// What providers send, in the shapes of their own documentation.

/** A response as it stands in the documentation of its provider, and what it has used. */
export interface ProviderResponse {
  readonly name: string;
  readonly contentType: string;
  readonly body: string;
  readonly used: { readonly total: number; readonly input: number; readonly output: number };
}

export const EVENTS = 'text/event-stream; charset=utf-8';
export const JSON_TYPE = 'application/json';

export function events(...data: readonly (object | string)[]): string {
  return data.map((each) => `data: ${typeof each === 'string' ? each : JSON.stringify(each)}\n\n`).join('');
}

export function namedEvents(
  ...data: readonly { readonly type: string; readonly [name: string]: unknown }[]
): string {
  return data.map((each) => `event: ${each.type}\ndata: ${JSON.stringify(each)}\n\n`).join('');
}

/** Looks like usage, and is what somebody wrote. */
const FAKE = '{"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2,"input_tokens":1}}';
const FAKE_EVENT = `\n\ndata: ${FAKE}\n\n`;

function chunk(content: string): object {
  const choices = [{ index: 0, delta: { role: 'assistant', content }, finish_reason: null }];
  return { id: 'chatcmpl-1', object: 'chat.completion.chunk', model: 'gpt-x', choices, usage: null };
}

export function openAiStream(words: readonly string[], usage: { input: number; output: number }): string {
  const counted = {
    prompt_tokens: usage.input,
    completion_tokens: usage.output,
    total_tokens: usage.input + usage.output,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 3 },
  };
  const last = { id: 'chatcmpl-1', object: 'chat.completion.chunk', choices: [], usage: counted };
  return events(...words.map(chunk), last, '[DONE]');
}

export function anthropicStream(words: readonly string[], usage: { input: number; output: number }): string {
  return namedEvents(
    {
      type: 'message_start',
      message: {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        content: [],
        usage: {
          input_tokens: usage.input - 30,
          cache_creation_input_tokens: 10,
          cache_read_input_tokens: 20,
          output_tokens: 1,
        },
      },
    },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'ping' },
    ...words.map((text) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } })),
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: usage.output } },
    { type: 'message_stop' },
  );
}

const WORDS = ['Hel', 'lo', ' wörld 🌍', FAKE, FAKE_EVENT, '\\"usage\\":{'];

export const RESPONSES: readonly ProviderResponse[] = [
  {
    name: 'OpenAI, chat completion',
    contentType: JSON_TYPE,
    body: JSON.stringify({
      id: 'chatcmpl-1',
      choices: [{ index: 0, message: { role: 'assistant', content: FAKE, usage: { total_tokens: 7 } } }],
      usage: {
        prompt_tokens: 19,
        completion_tokens: 10,
        total_tokens: 29,
        prompt_tokens_details: { cached_tokens: 0, total_tokens: 5 },
      },
      metadata: { usage: { prompt_tokens: 1, total_tokens: 1 } },
    }),
    used: { total: 29, input: 19, output: 10 },
  },
  {
    name: 'OpenAI, chat completion, streamed',
    contentType: EVENTS,
    body: openAiStream(WORDS, { input: 23, output: 42 }),
    used: { total: 65, input: 23, output: 42 },
  },
  {
    name: 'OpenAI, completion',
    contentType: JSON_TYPE,
    body: JSON.stringify(
      {
        choices: [{ text: FAKE_EVENT, index: 0 }],
        usage: { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 },
      },
      null,
      2,
    ),
    used: { total: 12, input: 5, output: 7 },
  },
  {
    name: 'OpenAI, embeddings',
    contentType: JSON_TYPE,
    body: JSON.stringify({
      object: 'list',
      data: [{ object: 'embedding', embedding: [0.0023, -1.5e-7, 0], index: 0 }],
      usage: { prompt_tokens: 8, total_tokens: 8 },
    }),
    used: { total: 8, input: 8, output: 0 },
  },
  {
    name: 'OpenAI, response',
    contentType: 'application/json; charset=utf-8',
    body: JSON.stringify({
      id: 'resp_1',
      object: 'response',
      output: [{ type: 'message', content: [{ type: 'output_text', text: FAKE }] }],
      usage: {
        input_tokens: 36,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: 87,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 123,
      },
    }),
    used: { total: 123, input: 36, output: 87 },
  },
  {
    name: 'OpenAI, response, streamed',
    contentType: EVENTS,
    body: namedEvents(
      { type: 'response.created', response: { id: 'resp_1', status: 'in_progress', usage: null } },
      ...WORDS.map((delta) => ({ type: 'response.output_text.delta', item_id: 'msg_1', delta })),
      { type: 'response.output_text.done', text: WORDS.join('') },
      {
        type: 'response.completed',
        response: {
          id: 'resp_1',
          output: [{ content: [{ type: 'output_text', text: FAKE, usage: { input_tokens: 3 } }] }],
          usage: { input_tokens: 37, output_tokens: 11, total_tokens: 48 },
        },
      },
    ),
    used: { total: 48, input: 37, output: 11 },
  },
  {
    name: 'Anthropic, message',
    contentType: JSON_TYPE,
    body: JSON.stringify({
      id: 'msg_1',
      type: 'message',
      content: [{ type: 'tool_use', input: { usage: { input_tokens: 1, output_tokens: 1 } } }],
      usage: {
        input_tokens: 10,
        cache_creation_input_tokens: 5,
        cache_read_input_tokens: 7,
        cache_creation: { ephemeral_5m_input_tokens: 5, output_tokens: 3 },
        output_tokens: 25,
        server_tool_use: { web_search_requests: 0 },
      },
    }),
    used: { total: 47, input: 22, output: 25 },
  },
  {
    name: 'Anthropic, message, streamed',
    contentType: EVENTS,
    body: anthropicStream(WORDS, { input: 55, output: 15 }),
    used: { total: 70, input: 55, output: 15 },
  },
];
