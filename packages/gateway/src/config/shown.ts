const SHOWN_LENGTH = 60;
/** Characters that break a line, move the cursor or turn the direction of a text: JSON leaves them as they are. */
const UNSAFE = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/**
 * A value for a message: short, on one line, and without what may be a password: before an `@`, and in the query of a
 * URL.
 */
export function shown(value: unknown): string {
  if (value === null) return 'empty';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a section';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value !== 'string') return typeof value;
  const text = value.includes('@')
    ? `***${value.slice(value.lastIndexOf('@'))}`
    : value.includes('://')
      ? maskedUrl(value)
      : value;
  return quoted(text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}...` : text);
}

/** Everything that moves a cursor, breaks a line or turns the direction of a text. */
export const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** What strangers sent, without any of it. */
export function printed(text: string): string {
  return text.replaceAll(UNPRINTABLE, '?');
}

/** A name that a user chose, such as an unknown key. */
export function shownName(name: string): string {
  return /^[\w.-]{1,60}$/.test(name) ? name : shown(name);
}

function quoted(text: string): string {
  return JSON.stringify(text).replaceAll(
    UNSAFE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

export const MASK = '********';

const CREDENTIALS = /^([a-z][\w+.-]*:\/\/)[^/?#]*@/i;
const QUERY = /\?[^#]*/;
const PARAMETER = /([?&;])([^=&;]*=)?[^&;]*/g;

/** A URL without what may be a secret in it: user and password, and the values of its query. */
export function maskedUrl(text: string): string {
  return text
    .replace(CREDENTIALS, `$1${MASK}@`)
    .replace(QUERY, (query) =>
      query.replaceAll(PARAMETER, (_, mark: string, name = '') => `${mark}${String(name)}${MASK}`),
    );
}
