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
