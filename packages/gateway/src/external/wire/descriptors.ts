import {
  create,
  createFileRegistry,
  type DescMessage,
  type DescMethod,
  type DescMethodUnary,
} from '@bufbuild/protobuf';
import {
  type DescriptorProto,
  DescriptorProtoSchema,
  EnumDescriptorProtoSchema,
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
  type FieldDescriptorProto,
  FieldDescriptorProtoSchema,
  FileDescriptorProtoSchema,
} from '@bufbuild/protobuf/wkt';
import {
  FAILURE_POLICIES,
  type FieldDefinition,
  type FieldType,
  type MessageDefinition,
  MESSAGES,
  METHOD,
  PACKAGE,
  SERVICE,
} from './definition.ts';

// Descriptors without generated code: what the wire definition says, in the form that the protobuf library reads.
const TYPES: Readonly<Record<FieldType, Type>> = {
  string: Type.STRING,
  int64: Type.INT64,
  int32: Type.INT32,
  bool: Type.BOOL,
  map: Type.MESSAGE,
  FailurePolicy: Type.ENUM,
  Policy: Type.MESSAGE,
};

const registry = createFileRegistry(
  create(FileDescriptorProtoSchema, {
    name: 'ratelimit.proto',
    package: PACKAGE,
    syntax: 'proto3',
    messageType: MESSAGES.map(messageProto),
    enumType: [
      create(EnumDescriptorProtoSchema, {
        name: 'FailurePolicy',
        value: FAILURE_POLICIES.map(({ name, number }) => ({ name, number })),
      }),
    ],
    service: [
      {
        name: SERVICE,
        method: [
          {
            name: METHOD,
            inputType: fullName('GetLimitsRequest'),
            outputType: fullName('GetLimitsResponse'),
          },
        ],
      },
    ],
  }),
  () => undefined,
);

export const requestMessage: DescMessage = messageNamed('GetLimitsRequest');
export const responseMessage: DescMessage = messageNamed('GetLimitsResponse');
export const getLimits: DescMethodUnary = unaryMethod();

function messageProto({ name, fields }: MessageDefinition): DescriptorProto {
  const optional = fields.filter(({ label }) => label === 'optional');
  return create(DescriptorProtoSchema, {
    name,
    field: fields.map((field) => fieldProto(name, field, optional.indexOf(field))),
    // proto3 spells presence as a oneof with a single member.
    oneofDecl: optional.map((field) => ({ name: `_${field.name}` })),
    nestedType: fields.filter(({ type }) => type === 'map').map(({ name: map }) => mapEntry(map)),
  });
}

function fieldProto(message: string, field: FieldDefinition, optionalIndex: number): FieldDescriptorProto {
  const { name, number, type } = field;
  const typeName =
    type === 'map'
      ? { typeName: `${fullName(message)}.${entryName(name)}` }
      : type === 'FailurePolicy' || type === 'Policy'
        ? { typeName: fullName(type) }
        : {};
  return create(FieldDescriptorProtoSchema, {
    name,
    number,
    jsonName: name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
    type: TYPES[type],
    label: type === 'map' || field.label === 'repeated' ? Label.REPEATED : Label.OPTIONAL,
    ...typeName,
    ...(optionalIndex < 0 ? {} : { proto3Optional: true, oneofIndex: optionalIndex }),
  });
}

/** A map is a list of entries, each a message of its own. */
export function mapEntry(field: string): DescriptorProto {
  const part = (name: string, number: number) => ({
    name,
    number,
    jsonName: name,
    type: Type.STRING,
    label: Label.OPTIONAL,
  });
  return create(DescriptorProtoSchema, {
    name: entryName(field),
    field: [part('key', 1), part('value', 2)],
    options: { mapEntry: true },
  });
}

export function entryName(field: string): string {
  return `${field.charAt(0).toUpperCase()}${field.slice(1)}Entry`;
}

function fullName(name: string): string {
  return `.${PACKAGE}.${name}`;
}

function messageNamed(name: string): DescMessage {
  const found = registry.getMessage(`${PACKAGE}.${name}`);
  if (found === undefined) throw new Error(`The wire definition has no message ${name}.`);
  return found;
}

function unaryMethod(): DescMethodUnary {
  const found = registry.getService(`${PACKAGE}.${SERVICE}`)?.methods[0];
  if (found === undefined || !isUnary(found)) {
    throw new Error(`The wire definition has no unary method ${METHOD}.`);
  }
  return found;
}

function isUnary(method: DescMethod): method is DescMethodUnary {
  return method.methodKind === 'unary';
}

const INTEGERS = new Set(
  MESSAGES.flatMap(({ fields }) => fields)
    .filter(({ type }) => type === 'int64' || type === 'int32')
    .map(({ name }) => name),
);

const SNAKE_NAMES: ReadonlyMap<string, string> = new Map(
  MESSAGES.flatMap(({ fields }) => fields).map(({ name }) => [
    name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
    name,
  ]),
);

/**
 * An answer that came by way of protobuf, as HTTP would have said it: documented names, and numbers as numbers
 * (protobuf's JSON writes 64-bit ones as text). A zero that is left out is a zero, and what is empty was not set.
 */
export function fromProtoJson(value: unknown): unknown {
  const answer = renamed(value);
  if (!isRecord(answer)) return answer;
  // Services of before write no zero: with a period it is one, without it the answer says nothing at all.
  const saysNothing =
    answer['average'] === undefined && answer['policies'] === undefined && answer['quota'] === undefined;
  return saysNothing && answer['period'] !== undefined ? { ...answer, average: 0 } : answer;
}

function renamed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(renamed);
  if (!isRecord(value)) return value;
  const fields = Object.entries(value)
    .map(([name, field]): [string, unknown] => {
      const snake = SNAKE_NAMES.get(name) ?? name;
      return [snake, INTEGERS.has(snake) ? asNumber(field) : renamed(field)];
    })
    .filter(([name, field]) => !isUnset(name, field));
  return Object.fromEntries(fields);
}

/** What protobuf cannot tell from "not set". */
function isUnset(name: string, field: unknown): boolean {
  if (field === '' || field === 'FAILURE_POLICY_UNSPECIFIED' || field === null) return true;
  if (Array.isArray(field)) return field.length === 0;
  return field === 0 && (name === 'burst' || name === 'failure_code');
}

function asNumber(value: unknown): unknown {
  return typeof value === 'string' && /^-?\d{1,19}$/.test(value) ? Number(value) : value;
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
