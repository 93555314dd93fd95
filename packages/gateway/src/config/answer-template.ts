// Texts of answers with `{{field}}` in them. What a field says may come from a client: how it is escaped depends on
// where it stands, so that it can never become markup, another header or another member of an object.
import { shown, UNPRINTABLE } from './shown.ts';

/** What a template may say, and an example of each. */
export const TEMPLATE_FIELDS = {
  status: 429,
  title: 'Too Many Requests',
  detail: 'The policy "api" admits this request again in 7 s.',
  code: 'limits',
  rule: 'login',
  policy: 'per-minute',
  limit: 100,
  remaining: 0,
  retry_after: 7,
  request_id: '0b7e1c0e-6d6e-4c6f-9a5e-0a2f7d1f3c11',
  method: 'GET',
  host: 'api.example.com',
  path: '/items',
} as const;

export type TemplateField = keyof typeof TEMPLATE_FIELDS;

/** Where a text is going. */
export type TemplateForm = 'json' | 'html' | 'text' | 'header';

/** What a body is, by how it begins. */
export function bodyForm(body: string): Exclude<TemplateForm, 'header'> {
  const begin = body.trimStart()[0];
  if (begin === '<') return 'html';
  return begin === '{' || begin === '[' ? 'json' : 'text';
}

/** By field; what is not known is left out. */
export type TemplateValues = Readonly<Partial<Record<TemplateField, string | number>>>;

const PLACEHOLDER = /\{\{\s*([^{}]*?)\s*\}\}/g;

/** The text with every field filled in, escaped for its form. */
export function renderTemplate(template: string, values: TemplateValues, form: TemplateForm): string {
  const known = new Map<string, string | number>(Object.entries(values));
  return template.replaceAll(PLACEHOLDER, (_, name: string) => ESCAPES[form](known.get(name)));
}

const ESCAPES: Readonly<Record<TemplateForm, (value: string | number | undefined) => string>> = {
  // Inside quotes a text, outside of them a number.
  json: (value) =>
    value === undefined ? 'null' : typeof value === 'number' ? String(value) : jsonText(value),
  html: (value = '') => String(value).replaceAll(NOT_PLAIN_IN_HTML, htmlEntity),
  text: (value = '') => String(value).replaceAll(UNPRINTABLE, ' '),
  header: (value = '') => String(value).replaceAll(NOT_IN_HEADER, '?'),
};

/** Beyond letters and digits of ASCII, very little. */
const NOT_PLAIN_IN_HTML = /[^A-Za-z\d ._-]/gu;
const NOT_IN_HEADER = /[^ -~]/gu;

/** `</script>` could end an element in a page that embeds the JSON. */
function jsonText(value: string): string {
  return JSON.stringify(value)
    .slice(1, -1)
    .replaceAll(
      /[<>&\u2028\u2029]/g,
      (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
    );
}

function htmlEntity(character: string): string {
  return `&#${character.codePointAt(0) ?? 0};`;
}

/** What is wrong with a template, as what continues "the setting ..."; undefined if nothing is. */
export function templateComplaint(template: string, form: TemplateForm): string | undefined {
  const names = [...template.matchAll(PLACEHOLDER)].map(([, name = '']) => name);
  const unknown = names.find((name) => !Object.hasOwn(TEMPLATE_FIELDS, name));
  if (unknown !== undefined) {
    return `contains {{${shown(unknown).slice(1, -1)}}}, which is not a field; there are ${Object.keys(TEMPLATE_FIELDS).join(', ')}`;
  }
  if (form === 'json') return jsonComplaint(template);
  if (form === 'html') return htmlComplaint(template);
  if (form === 'header' && !/^[ -~]*$/.test(template)) {
    return 'contains characters that a header cannot have; expected printable ASCII';
  }
  return undefined;
}

/** With values and without any it has to be JSON. */
function jsonComplaint(template: string): string | undefined {
  for (const values of [TEMPLATE_FIELDS, {}]) {
    try {
      JSON.parse(renderTemplate(template, values, 'json'));
    } catch {
      return 'is not JSON once its fields are filled in; put quotes around fields that are texts, such as "{{policy}}"';
    }
  }
  return undefined;
}

/** A tag from `<` to `>`, and whole scripts and styles: a text in there would be more than a text. */
const NOT_TEXT_OF_A_PAGE = /<(script|style|textarea|title|iframe|noscript)\b[\s\S]*?(?:<\/\1|$)|<[^>]*>?/gi;
const CODE_ELEMENT = /^<(?:script|style|iframe|noscript)\b/i;

function htmlComplaint(template: string): string | undefined {
  const misplaced = [...template.matchAll(NOT_TEXT_OF_A_PAGE)].some(([piece]) => {
    const tag = CODE_ELEMENT.test(piece) ? piece : (/^<[^>]*>?/.exec(piece)?.[0] ?? piece);
    return tag.includes('{{');
  });
  return misplaced
    ? 'has a field inside a tag, a script or a style, where it could become code; fields may only stand in the text of a page'
    : undefined;
}
