import { parseSync, Visitor } from 'oxc-parser';
import type { Check, RepositoryFile } from './tree.ts';

/**
 * An object answers for `constructor` and `toString`, too: a table that is looked up by any text is a `Map`. Tables
 * whose keys are a union of names are fine, because the compiler knows what they are asked for.
 */
export const textIsLookedUpInMaps: Check = (files) =>
  files
    .filter(({ path }) => /^packages\/[^/]+\/src\/.*\.ts$/.test(path) && !path.endsWith('.test.ts'))
    .flatMap(lookupsIn);

function lookupsIn(file: RepositoryFile): string[] {
  const { program } = parseSync(file.path, file.text, { sourceType: 'module' });
  const tables = new Set<string>();
  const found: string[] = [];
  new Visitor({
    VariableDeclarator: ({ id, init }) => {
      if (
        id.type !== 'Identifier' ||
        init?.type !== 'ObjectExpression' ||
        !id.typeAnnotation ||
        init.properties.length === 0
      )
        return;
      const annotation = file.text.slice(id.typeAnnotation.start, id.typeAnnotation.end);
      if (/\bRecord<string\b/.test(annotation)) tables.add(id.name);
    },
  }).visit(program);
  new Visitor({
    MemberExpression: ({ computed, object, property, start }) => {
      if (!computed || object.type !== 'Identifier' || !tables.has(object.name)) return;
      if (property.type === 'Literal') return;
      const line = file.text.slice(0, start).split('\n').length;
      found.push(`${file.path}:${line} looks up any text in the object ${object.name}; make it a Map`);
    },
  }).visit(program);
  return found;
}
