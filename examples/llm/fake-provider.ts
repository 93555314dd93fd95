// A language model that repeats a word, behind the HTTP APIs of OpenAI and Anthropic. A token is a word.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface FakeProvider {
  readonly url: string;
  /** The tokens that it has reported, by model. */
  readonly used: ReadonlyMap<string, number>;
  close(): void;
}

interface Asked {
  readonly model: string;
  readonly input: number;
  readonly output: number;
  readonly stream: boolean;
}

const WORD = 'word ';

export async function startProvider(): Promise<FakeProvider> {
  const used = new Map<string, number>();
  const server: Server = createServer((request, response) => {
    void answer(request, response, used);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a server that listens on a port
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    used,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  used: Map<string, number>,
): Promise<void> {
  let body = '';
  request.setEncoding('utf8');
  for await (const chunk of request) body += String(chunk);
  const asked = read(body);
  if (asked === undefined) {
    response.writeHead(400, { 'Content-Type': 'application/json' });
    response.end('{"error":{"message":"model and messages are missing","type":"invalid_request_error"}}');
    return;
  }
  used.set(asked.model, (used.get(asked.model) ?? 0) + asked.input + asked.output);
  const messages = (SHAPES[request.url ?? ''] ?? openAi)(asked);
  if (!asked.stream) {
    response.writeHead(200, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(messages.whole));
    return;
  }
  response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  for (const each of messages.events) {
    if (response.destroyed) return;
    response.write(each);
    // A turn of the event loop between words: they arrive one by one.
    await new Promise(setImmediate);
  }
  response.end();
}

function read(body: string): Asked | undefined {
  try {
    const asked: unknown = JSON.parse(body);
    const field = (name: string): unknown => (asked instanceof Object ? Reflect.get(asked, name) : undefined);
    const model = field('model');
    const messages = JSON.stringify(field('messages') ?? field('input') ?? '');
    const bounds = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'].map(field);
    const output = Number(bounds.find((bound) => bound !== undefined) ?? 16);
    if (typeof model !== 'string') return undefined;
    return { model, input: messages.split(/\s+/).length, output, stream: field('stream') === true };
  } catch {
    return undefined;
  }
}

interface Messages {
  readonly whole: object;
  readonly events: readonly string[];
}

function openAi({ model, input, output }: Asked): Messages {
  const usage = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
  const about = { id: 'chatcmpl-1', object: 'chat.completion.chunk', model };
  const piece = { index: 0, delta: { content: WORD }, finish_reason: null };
  return {
    whole: {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      model,
      choices: [{ index: 0, message: { role: 'assistant', content: WORD.repeat(output) } }],
      usage,
    },
    events: [
      ...Array.from({ length: output }, () => event({ ...about, choices: [piece] })),
      event({ ...about, choices: [], usage }),
      'data: [DONE]\n\n',
    ],
  };
}

function anthropic({ model, input, output }: Asked): Messages {
  const usage = { input_tokens: input, output_tokens: output };
  const about = { id: 'msg_1', type: 'message', role: 'assistant', model };
  const delta = { type: 'text_delta', text: WORD };
  return {
    whole: { ...about, content: [{ type: 'text', text: WORD.repeat(output) }], usage },
    events: [
      named({ type: 'message_start', message: { ...about, usage: { ...usage, output_tokens: 1 } } }),
      ...Array.from({ length: output }, () => named({ type: 'content_block_delta', index: 0, delta })),
      named({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: output } }),
      named({ type: 'message_stop' }),
    ],
  };
}

function openAiResponse({ model, input, output }: Asked): Messages {
  const usage = { input_tokens: input, output_tokens: output, total_tokens: input + output };
  const about = { id: 'resp_1', object: 'response', model };
  const text = WORD.repeat(output);
  const whole = { ...about, output: [{ type: 'message', content: [{ type: 'output_text', text }] }], usage };
  return {
    whole,
    events: [
      named({ type: 'response.created', response: { ...about, usage: null } }),
      ...Array.from({ length: output }, () => named({ type: 'response.output_text.delta', delta: WORD })),
      named({ type: 'response.completed', response: whole }),
    ],
  };
}

const SHAPES: Readonly<Record<string, (asked: Asked) => Messages>> = {
  '/v1/messages': anthropic,
  '/v1/responses': openAiResponse,
};

function event(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

function named(data: { readonly type: string; readonly [name: string]: unknown }): string {
  return `event: ${data.type}\n${event(data)}`;
}
