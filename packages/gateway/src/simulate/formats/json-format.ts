import type { AccessLogFormat, LoggedRequest } from '../logged-request.ts';
import { JsonFields } from './json-fields.ts';
import { fieldAt, parsedObject, ParsedFields, type LoggedFields } from './parsed-fields.ts';
import { UsualRequest } from './usual-request.ts';

/** A format of which every line is a JSON object. */
interface JsonFormat extends Pick<AccessLogFormat, 'name' | 'description'> {
  /** The names of the fields that `requestOf` asks for by their places. */
  readonly fields: readonly string[];
  /** Undefined: the line cannot be read. `'other'`: it is not about a request. */
  readonly requestOf: (fields: LoggedFields) => Omit<LoggedRequest, 'headers'> | 'other' | undefined;
  readonly headersOf: (parsed: object) => readonly string[];
}

export function jsonFormat({ name, description, fields, requestOf, headersOf }: JsonFormat): AccessLogFormat {
  const scanned = new JsonFields(fields);
  const read: AccessLogFormat['read'] = (line) => {
    const parsed = line.startsWith('{') ? parsedObject(line) : undefined;
    if (parsed === undefined) return undefined;
    const found = requestOf(new ParsedFields(fields.map((path) => fieldAt(parsed, path))));
    return typeof found === 'object' ? { ...found, headers: headersOf(parsed) } : found;
  };
  return {
    name,
    description,
    wholeSeconds: false,
    read,
    readBytes(bytes, from, to) {
      if (!scanned.scan(bytes, from, to)) return undefined;
      const found = requestOf(scanned);
      return typeof found === 'object' ? new UsualRequest(found, { bytes, from, to, read }) : found;
    },
  };
}
