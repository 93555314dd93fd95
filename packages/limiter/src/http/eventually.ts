/** Known now, or later. What is known now is not made to wait: a promise per step costs more than a decision. */
export type Eventually<Value> = Value | PromiseLike<Value>;

/** Goes on with a value as soon as it is known: at once, if it already is. */
export function after<Value, Result>(
  value: Eventually<Value>,
  use: (value: Value) => Eventually<Result>,
): Eventually<Result> {
  return isPending(value) ? Promise.resolve(value).then(use) : use(value);
}

/** By what it can do: libraries have promises of their own. */
export function isPending<Value>(value: Eventually<Value>): value is PromiseLike<Value> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}
