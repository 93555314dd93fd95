import { shown } from './shown.ts';

/** One piece of a path pattern between slashes. */
export type PathSegment =
  /** As the paths of requests arrive at rules. */
  | { readonly kind: 'literal'; readonly text: string }
  | { readonly kind: 'parameter'; readonly name: string }
  /** `*`: any one segment. */
  | { readonly kind: 'any' }
  /** `**`, at the end: everything below, and nothing. */
  | { readonly kind: 'rest' };

const MAX_LENGTH = 1024;
const MAX_SEGMENTS = 64;
const LITERAL = /^[\w.~!$&'()+,;=:@%-]+$/;
/** Dots that are resolved, and escapes that are refused, before a rule sees a path. */
const NEVER_SEEN = /^\.{1,2}(?:;|$)|%(?![\da-f]{2})|%(?:2f|5c|[01][\da-f]|7f)/i;
const PARAMETER = /^\{([A-Za-z_]\w{0,63})\}$/;

/** `/users/{id}/files/**` in pieces. Call it only with what `pathPatternComplaint` accepts. */
export function parsePathPattern(pattern: string): readonly PathSegment[] {
  return segmentsOf(pattern).map((text) => {
    const name = PARAMETER.exec(text)?.[1];
    if (name !== undefined) return { kind: 'parameter', name };
    if (text === '*') return { kind: 'any' };
    return text === '**' ? { kind: 'rest' } : { kind: 'literal', text: normalSpelling(text) };
  });
}

/** What is wrong with a pattern, or nothing. */
export function pathPatternComplaint(pattern: string): string | undefined {
  if (!pattern.startsWith('/')) return `is ${shown(pattern)}; a path begins with "/"`;
  const segments = segmentsOf(pattern);
  if (pattern.length > MAX_LENGTH || segments.length > MAX_SEGMENTS) {
    return `is ${shown(pattern)}; a path has at most ${MAX_LENGTH} characters and ${MAX_SEGMENTS} segments`;
  }
  const colon = segments.find((text) => /^:\w+$/.test(text));
  if (colon !== undefined) {
    return `is ${shown(pattern)}; write "{${colon.slice(1)}}" for a parameter, not "${colon}"`;
  }
  if (segments.slice(0, -1).includes('**')) return `is ${shown(pattern)}; "**" may only be the last segment`;
  const names = segments.flatMap((text) => PARAMETER.exec(text)?.[1] ?? []);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) return `is ${shown(pattern)}; the parameter {${twice}} appears twice`;
  const wrong = segments.slice(0, -1).concat(segments.slice(-1).filter((text) => text !== ''));
  const bad = wrong.find(
    (text) => text !== '*' && text !== '**' && !PARAMETER.test(text) && !LITERAL.test(text),
  );
  const unseen = segments.find((text) => NEVER_SEEN.test(text.replaceAll(/%2e/gi, '.')));
  if (bad === undefined && unseen !== undefined) {
    return `is ${shown(pattern)}; paths are normalized before rules see them, so the segment ${shown(unseen)} would never match`;
  }
  return bad === undefined
    ? undefined
    : `is ${shown(pattern)}; ${shown(bad)} is not a segment: write plain characters, "{name}", "*" or, at the end, "**"`;
}

function segmentsOf(pattern: string): readonly string[] {
  return pattern.slice(1).split('/');
}

const ESCAPE = /%[\da-f]{2}/gi;
const NEEDS_NO_ESCAPE = /^[\w.~-]$/;

/** Without escapes that are not needed, the others in capitals (RFC 3986 §6.2.2). */
function normalSpelling(text: string): string {
  return text.replaceAll(ESCAPE, (escape) => {
    const character = String.fromCharCode(Number.parseInt(escape.slice(1), 16));
    return NEEDS_NO_ESCAPE.test(character) ? character : escape.toUpperCase();
  });
}

/**
 * A path as the most forgiving frameworks read it: in any case, without `;parameters`, doubled slashes and a slash at
 * the end. The same for a pattern of it and for a request.
 */
export function lenientPath(path: string): string {
  const plain = path
    .toLowerCase()
    .replaceAll(/;[^/]*/g, '')
    .replaceAll(/\/{2,}/g, '/');
  return plain.length > 1 && plain.endsWith('/') ? plain.slice(0, -1) : plain;
}

/** A pattern in pieces whose texts are as `lenientPath` leaves them. */
export function parseLenientPattern(pattern: string): readonly PathSegment[] {
  const segments = parsePathPattern(pattern).map((segment) =>
    segment.kind === 'literal' ? { ...segment, text: lenientPath(segment.text) } : segment,
  );
  const last = segments.at(-1);
  const endsWithSlash = segments.length > 1 && last?.kind === 'literal' && last.text === '';
  return endsWithSlash ? segments.slice(0, -1) : segments;
}
