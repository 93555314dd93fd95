/** Known now, or later. What is known now is not made to wait: a promise per step costs more than a decision. */
export type Eventually<Value> = Value | Promise<Value>;

/** Goes on with a value as soon as it is known: at once, if it already is. */
export function after<Value, Result>(
  value: Eventually<Value>,
  use: (value: Value) => Eventually<Result>,
): Eventually<Result> {
  return isPending(value) ? value.then(use) : use(value);
}

export function isPending<Value>(value: Eventually<Value>): value is Promise<Value> {
  return value instanceof Promise;
}

/** What a function of the application returned. By what it can do: libraries and other realms have promises of their own. */
export function fromApplication<Value>(value: Value | PromiseLike<Value>): Eventually<Value> {
  return isThenable(value) ? Promise.resolve(value) : value;
}

function isThenable<Value>(value: Value | PromiseLike<Value>): value is PromiseLike<Value> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}
