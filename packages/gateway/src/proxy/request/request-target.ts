// The one normal form of paths: rules match it, and the backend gets exactly it, so that no spelling of a path passes
// by a rule.
//
// - `//` becomes `/`; `/./` and `/a/../` are resolved; `..` above the root is refused;
// - `%41` becomes `A` where the character needs no escape (RFC 3986 §6.2.2.2), other escapes get capital letters
//   (§6.2.2.1);
// - `"<>[]^`{|}` are escaped: clients send them, though RFC 3986 does not allow them;
// - `\`, `#`, control characters, bytes outside of ASCII, and escapes that hide `/`, `\` or a control character are
//   refused: servers disagree about them.
// - `%2F` may be kept (`server.encoded_slashes`): as a character of its segment, and with the path that a server reads
//   which decodes it, so that rules can be asked about both;
// - `..;x` is refused: some servers take it for `..`, others for a name.
// Case and other `;parameters` stay. A query stays as it is.

export interface RequestTarget {
  /** Of the absolute form, `GET http://host/path`. */
  readonly authority: string | undefined;
  readonly path: string;
  /** The path for servers to which `%2F` is a separator; undefined if it has none. */
  readonly otherPath: string | undefined;
  /** `?a=b`, or empty. */
  readonly query: string;
}

export type EncodedSlashes = 'refuse' | 'keep';

const PLAIN_PATH = /^(?:\/[\w~!$&'()*+,;=:@-][\w.~!$&'()*+,;=:@-]*)*\/?$/;
const QUERY = /^(?:\?[!"$-~]*)?$/;
const ABSOLUTE = /^https?:\/\/([^/?#]*)([^#]*)$/i;

/** Undefined for a target that has no normal form. */
export function readTarget(
  target: string,
  encodedSlashes: EncodedSlashes = 'refuse',
): RequestTarget | undefined {
  if (target.startsWith('/')) return readPathAndQuery(target, undefined, encodedSlashes);
  const absolute = ABSOLUTE.exec(target);
  if (absolute === null) return undefined;
  const [, authority = '', rest = ''] = absolute;
  return readPathAndQuery(rest.startsWith('/') ? rest : `/${rest}`, authority, encodedSlashes);
}

function readPathAndQuery(
  text: string,
  authority: string | undefined,
  encodedSlashes: EncodedSlashes,
): RequestTarget | undefined {
  const mark = text.indexOf('?');
  const query = mark === -1 ? '' : text.slice(mark);
  if (!QUERY.test(query)) return undefined;
  const path = normalPath(mark === -1 ? text : text.slice(0, mark), encodedSlashes);
  if (path === undefined) return undefined;
  if (!path.includes(SLASH)) return { authority, path, otherPath: undefined, query };
  const otherPath = normalPath(path.replaceAll(SLASH, '/'));
  return otherPath === undefined ? undefined : { authority, path, otherPath, query };
}

/** As it is spelled in a normal form. */
const SLASH = '%2F';

/** The normal form of a path that begins with `/`; undefined if it has none. */
export function normalPath(path: string, encodedSlashes: EncodedSlashes = 'refuse'): string | undefined {
  if (PLAIN_PATH.test(path)) return path;
  const allowed = encodedSlashes === 'keep' ? ALLOWED_WITH_SLASHES : ALLOWED;
  return allowed.test(path) ? withoutDots(normalSpelling(path)) : undefined;
}

const ALLOWED = /^(?:[\w.~!$&'()*+,;=:@/"<>[\]^`{|}-]|%(?!2f|5c|[01][\da-f]|7f)[\da-f]{2})*$/i;
const ALLOWED_WITH_SLASHES = /^(?:[\w.~!$&'()*+,;=:@/"<>[\]^`{|}-]|%(?!5c|[01][\da-f]|7f)[\da-f]{2})*$/i;
const TO_ESCAPE = /["<>[\]^`{|}]/g;
const ESCAPE = /%[\da-f]{2}/gi;
const UNRESERVED = /^[\w.~-]$/;

function normalSpelling(path: string): string {
  return path.replace(ESCAPE, shortest).replace(TO_ESCAPE, escaped);
}

function shortest(escape: string): string {
  const character = String.fromCharCode(Number.parseInt(escape.slice(1), 16));
  return UNRESERVED.test(character) ? character : escape.toUpperCase();
}

function escaped(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
}

const DOTS_WITH_PARAMETERS = /^\.{1,2};/;

/** RFC 3986 §5.2.4, but with one slash where several stand, and no way above the root. */
function withoutDots(path: string): string | undefined {
  const kept: string[] = [];
  let last = '';
  for (const segment of path.split('/')) {
    last = segment;
    if (DOTS_WITH_PARAMETERS.test(segment)) return undefined;
    if (segment === '..' && kept.pop() === undefined) return undefined;
    if (segment !== '' && segment !== '.' && segment !== '..') kept.push(segment);
  }
  const directory = last === '' || last === '.' || last === '..';
  return kept.length === 0 ? '/' : `/${kept.join('/')}${directory ? '/' : ''}`;
}
