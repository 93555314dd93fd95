import {
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  visit,
  type Document,
  type Node,
  type YAMLMap,
  type YAMLParseError,
} from 'yaml';
import { pathText, type Path } from './path.ts';
import type { Origin, ConfigProblem } from './problem.ts';
import { shown, shownName } from './shown.ts';

export interface YamlFile {
  /** As the user calls it. */
  readonly path: string;
  readonly text: string;
}

export interface YamlTree {
  /** Plain objects, arrays and scalars; undefined where the text is not YAML. */
  readonly value: unknown;
  readonly problems: readonly ConfigProblem[];
  readonly places: FilePlaces;
}

/** Where in a file each setting is written: plain values, which another thread can send. */
export interface FilePlaces {
  readonly file: string;
  /** The offset at which each line begins. */
  readonly lineStarts: number[];
  /** By the text of the path. */
  readonly positions: ReadonlyMap<string, KeyPosition>;
}

interface KeyPosition {
  readonly key: number;
  readonly value: number;
}

/** Where a key is written (`key`), or its value; for what is not in the file, its nearest parent. */
export function locateInFile(places: FilePlaces, path: Path, what: 'key' | 'value'): Origin {
  for (let length = path.length; length > 0; length -= 1) {
    const position = places.positions.get(pathText(path.slice(0, length)));
    if (position !== undefined) return originAt(places, length < path.length ? position.key : position[what]);
  }
  return originAt(places, 0);
}

/** Whether the file itself says it. */
export function isInFile({ positions }: FilePlaces, path: Path): boolean {
  return positions.has(pathText(path));
}

function originAt({ file, lineStarts }: FilePlaces, offset: number): Origin {
  const { line, col } = Object.assign(new LineCounter(), { lineStarts }).linePos(offset);
  return { from: 'file', file, line: Math.max(line, 1), column: Math.max(col, 1) };
}

const MAX_FILE_LENGTH = 2 ** 20;
const MAX_DEPTH = 32;
/** Control characters, and what stands for bytes that are not UTF-8. A byte order mark may begin a file. */
// oxlint-disable-next-line no-control-regex -- these are what is looked for
const NOT_TEXT = /[\0-\u0008\u000b\u000c\u000e-\u001f\u007f\ufffd]/;
/** Aliases are copied: a few lines of them could otherwise become millions of values. */
const MAX_VALUES = 100_000;

/** The first mistake in the syntax is the cause of most of the others. */
const MAX_SYNTAX_ERRORS = 5;

/** Messages of our own: those of the parser may quote the text, and the text may hold a password. */
const SYNTAX: ReadonlyMap<string, string> = new Map([
  [
    'BAD_ALIAS',
    'an alias (*name) needs an anchor (&name) before it; put quotes around a string that begins with "*"',
  ],
  ['BAD_INDENT', 'the indentation does not match the lines above, or a bracket there is not closed'],
  ['BAD_SCALAR_START', 'a string cannot begin with this character; put quotes around it'],
  [
    'BLOCK_AS_IMPLICIT_KEY',
    'this value is followed by a line that is indented further; check the indentation, or begin a nested section on a line of its own',
  ],
  ['BAD_DQ_ESCAPE', 'the backslash begins no known escape; write \\\\ for a backslash, or use single quotes'],
  ['COMMENT_SPACE', 'a comment needs a space before the "#"'],
  ['MISSING_CHAR', 'a bracket, a quote, a comma or a ":" is missing here'],
  ['MULTILINE_IMPLICIT_KEY', 'a key has to be on one line; a ":" may be missing'],
  ['MULTIPLE_DOCS', 'a second document begins here ("---"); a configuration is one document'],
  ['TAB_AS_INDENT', 'tabs cannot be used for indentation; use spaces'],
  [
    'TAG_RESOLVE_FAILED',
    'tags (!name) are not supported; remove it, or put quotes around a string that begins with "!"',
  ],
  ['UNEXPECTED_TOKEN', 'this is not expected here; a string with ": " or " #" in it needs quotes'],
]);

/** Reads YAML 1.2 into plain values and remembers where each was written. */
export function readYamlTree(file: YamlFile): YamlTree {
  const lines = new LineCounter();
  const positions = new Map<string, KeyPosition>();
  const places: FilePlaces = { file: file.path, lineStarts: lines.lineStarts, positions };
  const at = (offset: number): Origin => originAt(places, offset);
  const failed = (problems: readonly ConfigProblem[]): YamlTree => ({ value: undefined, problems, places });

  if (file.text.length > MAX_FILE_LENGTH) {
    return failed([
      error(at(0), `the file has ${file.text.length} characters; at most ${MAX_FILE_LENGTH} are read`),
    ]);
  }
  const strange = NOT_TEXT.exec(file.text);
  if (strange !== null) {
    lines.addNewLine(0);
    for (const line of file.text.slice(0, strange.index).matchAll(/\n/g)) lines.addNewLine(line.index + 1);
    return failed([error(at(strange.index), 'the file is not text in UTF-8')]);
  }
  const document = parse(file.text, lines);
  if (document === undefined) return failed([error(at(0), 'the file is nested too deeply to be read')]);
  const syntax = [...document.errors, ...document.warnings];
  if (syntax.length > 0) {
    const quote = unclosedQuote(document, syntax);
    if (quote !== undefined) return failed([error(at(quote), 'the quote that opens here is not closed')]);
    // Of several about one place the last says most.
    const byPlace = new Map(syntax.map(({ code, pos }) => [pos[0], code]));
    return failed(
      [...byPlace]
        .slice(0, MAX_SYNTAX_ERRORS)
        .map(([offset, code]) => error(at(offset), syntaxMessage(code))),
    );
  }

  const reader = new NodeReader(positions, at);
  const value = reader.read(document.contents, [], 0);
  return { value, problems: reader.problems, places };
}

function syntaxMessage(code: string): string {
  return SYNTAX.get(code) ?? 'this is not valid YAML';
}

/** Where the string begins that has no end: the parser reports the place where it gave up. */
function unclosedQuote(document: Document.Parsed, [first]: readonly YAMLParseError[]): number | undefined {
  if (first?.code !== 'MISSING_CHAR') return undefined;
  let found: number | undefined;
  visit(document, {
    Scalar: (_, { type, range }) => {
      const isQuoted = type === 'QUOTE_DOUBLE' || type === 'QUOTE_SINGLE';
      if (!isQuoted || range?.[1] !== first.pos[0]) return undefined;
      [found] = range;
      return visit.BREAK;
    },
  });
  return found;
}

function parse(text: string, lineCounter: LineCounter): Document.Parsed | undefined {
  try {
    return parseDocument(text, {
      lineCounter,
      prettyErrors: false,
      version: '1.2',
      merge: false,
      uniqueKeys: false,
    });
  } catch (failure) {
    // The parser recurses: a hundred thousand brackets end its stack.
    if (failure instanceof RangeError) return undefined;
    throw failure;
  }
}

class NodeReader {
  readonly problems: ConfigProblem[] = [];
  private values = 0;
  /** The last node of each name so far: an alias means the one before it. */
  private readonly anchors = new Map<string, Node>();
  private readonly positions: Map<string, KeyPosition>;
  private readonly at: (offset: number) => Origin;

  constructor(positions: Map<string, KeyPosition>, at: (offset: number) => Origin) {
    this.positions = positions;
    this.at = at;
  }

  read(node: unknown, path: Path, depth: number): unknown {
    const origin = this.at(offsetOf(node));
    this.values += 1;
    if (this.values === MAX_VALUES + 1) {
      this.problems.push(
        error(origin, `the file has more than ${MAX_VALUES} values, counting what aliases repeat`),
      );
    }
    if (this.values > MAX_VALUES) return undefined;
    if (depth > MAX_DEPTH) {
      this.problems.push(error(origin, `sections are nested more than ${MAX_DEPTH} deep`));
      return undefined;
    }
    if (isAlias(node)) {
      const anchored = this.anchors.get(node.source);
      if (anchored !== undefined) return this.read(anchored, path, depth + 1);
      this.problems.push(error(origin, syntaxMessage('BAD_ALIAS')));
      return undefined;
    }
    if (isNode(node) && node.anchor !== undefined) this.anchors.set(node.anchor, node);
    if (isMap(node)) return this.readMap(node, path, depth);
    if (isSeq(node)) {
      return node.items.map((item, index) => {
        const place = offsetOf(item);
        this.positions.set(pathText([...path, index]), { key: place, value: place });
        return this.read(item, [...path, index], depth + 1);
      });
    }
    return isScalar(node) ? node.value : null;
  }

  private readMap(map: YAMLMap, path: Path, depth: number): unknown {
    const entries: Record<string, unknown> = {};
    for (const { key, value } of map.items) {
      const name = this.readKey(key);
      if (name === undefined) continue;
      const keyAt = offsetOf(key);
      // The parser would compare each key with all before it.
      if (Object.hasOwn(entries, name)) {
        this.problems.push(
          error(this.at(keyAt), `${shownName(name)} appears twice in this section; keep one of the two`),
        );
        continue;
      }
      this.positions.set(pathText([...path, name]), { key: keyAt, value: offsetOf(value) || keyAt });
      entries[name] = this.read(value, [...path, name], depth + 1);
    }
    return entries;
  }

  private readKey(key: unknown): string | undefined {
    const origin = this.at(offsetOf(key));
    const name: unknown = isScalar(key) ? key.value : undefined;
    if (typeof name !== 'string' && typeof name !== 'number') {
      const what = isScalar(key) ? `a key is ${shown(name)}` : 'a key is not a string';
      this.problems.push(error(origin, `${what}; put quotes around it if that is its name`));
      return undefined;
    }
    // As a name of a plain object it would be no entry but a prototype.
    if (name === '__proto__') {
      this.problems.push(error(origin, `${shownName(name)} cannot be used as a name`));
      return undefined;
    }
    return String(name);
  }
}

function offsetOf(node: unknown): number {
  const range: unknown =
    typeof node === 'object' && node !== null && 'range' in node ? node.range : undefined;
  const start: unknown = Array.isArray(range) ? range[0] : undefined;
  return typeof start === 'number' ? start : 0;
}

function error(origin: Origin, message: string): ConfigProblem {
  return { severity: 'error', origin, path: '', message, suggestion: undefined };
}
