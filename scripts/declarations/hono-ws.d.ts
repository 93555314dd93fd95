// `@hono/node-server` names this type in its declarations. Those of `hono/ws` need the types of a browser, which this
// repository does without; tsconfig.base.json puts this file in their place.
export type UpgradeWebSocket<Socket, Options> = (
  events: (socket: Socket) => unknown,
  options?: Options,
) => unknown;
