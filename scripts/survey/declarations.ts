import { parseSync, Visitor } from 'oxc-parser';
import type { RepositoryFile } from '../tidy/tree.ts';
import { grouped } from './grouped.ts';

export interface DeclaredType {
  readonly name: string;
  readonly path: string;
  readonly line: number;
}

export interface ClassShape {
  readonly name: string;
  readonly start: number;
  readonly end: number;
  /** Methods and accessors with a body, the constructor included. */
  readonly methods: number;
}

/** Every class, interface, type alias and enum that a file declares, exported or not. */
function declaredTypes(file: RepositoryFile): DeclaredType[] {
  const found: DeclaredType[] = [];
  const add = (id: { readonly name: string; readonly start: number } | null): void => {
    if (id === null) return;
    found.push({ name: id.name, path: file.path, line: file.text.slice(0, id.start).split('\n').length });
  };
  visit(file, {
    ClassDeclaration: ({ id }) => add(id),
    TSInterfaceDeclaration: ({ id }) => add(id),
    TSTypeAliasDeclaration: ({ id }) => add(id),
    TSEnumDeclaration: ({ id }) => add(id),
  });
  return found;
}

export function classesOf(file: RepositoryFile): ClassShape[] {
  const found: ClassShape[] = [];
  visit(file, {
    ClassDeclaration: ({ id, body, start, end }) => {
      const methods = body.body.filter(({ type }) => type === 'MethodDefinition').length;
      found.push({ name: id?.name ?? 'default', start, end, methods });
    },
  });
  return found;
}

/** Names that more than one file, or one file twice, declares as a type. */
export function declaredTwice(files: readonly RepositoryFile[]): Map<string, DeclaredType[]> {
  const byName = grouped(files.flatMap(declaredTypes), ({ name }) => name);
  return new Map([...byName].filter(([, all]) => all.length > 1));
}

function visit({ path, text }: RepositoryFile, visitor: ConstructorParameters<typeof Visitor>[0]): void {
  const { errors, program } = parseSync(path, text, { sourceType: 'module' });
  const [error] = errors;
  if (error !== undefined) throw new Error(`${path}: ${error.message}`);
  new Visitor(visitor).visit(program);
}
