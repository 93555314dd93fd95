/** Where a setting stands: `['rate_limit', 'rules', 0, 'cost']`. */
export type Path = readonly (string | number)[];

/** `rate_limit.rules[0].cost` */
export function pathText(path: Path): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`;
    else text += (text === '' ? '' : '.') + (/^[\w-]+$/.test(part) ? part : JSON.stringify(part));
  }
  return text;
}

export function startsWith(path: Path, start: Path): boolean {
  return start.length <= path.length && start.every((part, at) => part === path[at]);
}

export function isTree(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The value at a path, or undefined. */
export function valueAt(tree: unknown, path: Path): unknown {
  let value = tree;
  for (const part of path) {
    if (Array.isArray(value) && typeof part === 'number') value = value[part];
    else if (isTree(value) && Object.hasOwn(value, part)) value = value[String(part)];
    else return undefined;
  }
  return value;
}

/** The tree with another value at a path that it has. */
export function withValueAt(tree: unknown, path: Path, value: unknown): unknown {
  const [part, ...rest] = path;
  if (part === undefined) return value;
  if (Array.isArray(tree) && typeof part === 'number') {
    return tree.with(part, withValueAt(tree[part], rest, value));
  }
  return isTree(tree) ? { ...tree, [part]: withValueAt(tree[String(part)], rest, value) } : tree;
}
