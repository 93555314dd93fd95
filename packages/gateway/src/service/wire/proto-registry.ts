// Descriptors without generated code, from a notation that reads like a .proto file.
import {
  create,
  createFileRegistry,
  type DescMessage,
  type DescMethod,
  type DescMethodBiDiStreaming,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  type FileRegistry,
} from '@bufbuild/protobuf';
import {
  type DescriptorProto,
  DescriptorProtoSchema,
  type EnumDescriptorProto,
  EnumDescriptorProtoSchema,
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
  type FieldDescriptorProto,
  FieldDescriptorProtoSchema,
  file_google_protobuf_any,
  file_google_protobuf_duration,
  file_google_protobuf_struct,
  file_google_protobuf_wrappers,
  type FileDescriptorProto,
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
} from '@bufbuild/protobuf/wkt';
import { entryName, mapEntry } from '../../external/wire/descriptors.ts';
import { PROTO_SOURCES, type ProtoSource } from './envoy-protos.ts';

const SCALARS: ReadonlyMap<string, Type> = new Map([
  ['string', Type.STRING],
  ['bytes', Type.BYTES],
  ['bool', Type.BOOL],
  ['int32', Type.INT32],
  ['uint32', Type.UINT32],
]);

const ENUMS: ReadonlySet<string> = new Set(
  PROTO_SOURCES.flatMap((source) => Object.keys(source.enums ?? {}).map((name) => fullName(source, name))),
);

/** Every message and service, and the files that reflection shows. */
export const registry: FileRegistry = createFileRegistry(
  create(FileDescriptorSetSchema, {
    file: [
      ...[
        file_google_protobuf_any,
        file_google_protobuf_duration,
        file_google_protobuf_struct,
        file_google_protobuf_wrappers,
      ].map(({ proto }) => proto),
      ...PROTO_SOURCES.map(fileProto),
    ],
  }),
);

export function messageNamed(name: string): DescMessage {
  const found = registry.getMessage(name);
  if (found === undefined) throw new Error(`there is no message ${name}`);
  return found;
}

/** `grpc.health.v1.Health/Check` */
export function unaryNamed(name: string): DescMethodUnary {
  const found = methodNamed(name);
  if (!isUnary(found)) throw new Error(`${name} is a stream`);
  return found;
}

export function serverStreamNamed(name: string): DescMethodServerStreaming {
  const found = methodNamed(name);
  if (!isServerStream(found)) throw new Error(`${name} is not a stream of answers`);
  return found;
}

export function streamNamed(name: string): DescMethodBiDiStreaming {
  const found = methodNamed(name);
  if (!isStream(found)) throw new Error(`${name} is not a stream both ways`);
  return found;
}

function isUnary(method: DescMethod): method is DescMethodUnary {
  return method.methodKind === 'unary';
}

function isServerStream(method: DescMethod): method is DescMethodServerStreaming {
  return method.methodKind === 'server_streaming';
}

function isStream(method: DescMethod): method is DescMethodBiDiStreaming {
  return method.methodKind === 'bidi_streaming';
}

function methodNamed(name: string): DescMethod {
  const [service = '', method = ''] = name.split('/');
  const found = registry.getService(service)?.methods.find((each) => each.name === method);
  if (found === undefined) throw new Error(`there is no method ${name}`);
  return found;
}

function fileProto(source: ProtoSource): FileDescriptorProto {
  return create(FileDescriptorProtoSchema, {
    name: source.file,
    package: source.package,
    syntax: 'proto3',
    dependency: [...source.imports],
    messageType: namesAt('', source.messages).map((name) => messageProto(source, name)),
    enumType: enumsAt('', source),
    service: Object.entries(source.services ?? {}).map(([name, methods]) => ({
      name,
      method: methods.map((line) => methodProto(source, line)),
    })),
  });
}

/** The names directly below another, or at the top. */
function namesAt(outer: string, named: Readonly<Record<string, unknown>>): readonly string[] {
  const prefix = outer === '' ? '' : `${outer}.`;
  return Object.keys(named).filter(
    (name) => name.startsWith(prefix) && !name.slice(prefix.length).includes('.'),
  );
}

function lastPart(name: string): string {
  return name.slice(name.lastIndexOf('.') + 1);
}

function enumsAt(outer: string, { enums = {} }: ProtoSource): EnumDescriptorProto[] {
  return namesAt(outer, enums).map((name) =>
    create(EnumDescriptorProtoSchema, {
      name: lastPart(name),
      value: (enums[name] ?? []).map((value, number) => ({ name: value, number })),
    }),
  );
}

function messageProto(source: ProtoSource, name: string): DescriptorProto {
  const lines = source.messages[name] ?? [];
  const oneofs = [...new Set(lines.flatMap((line) => / oneof:(\w+)$/.exec(line)?.[1] ?? []))];
  return create(DescriptorProtoSchema, {
    name: lastPart(name),
    field: lines.map((line) => fieldProto(line, { source, message: name, oneofs })),
    oneofDecl: oneofs.map((oneof) => ({ name: oneof })),
    enumType: enumsAt(name, source),
    nestedType: [
      ...namesAt(name, source.messages).map((inner) => messageProto(source, inner)),
      ...lines.flatMap((line) => (line.endsWith(' map') ? [mapEntry(line.split(' ')[1] ?? '')] : [])),
    ],
  });
}

interface FieldPlace {
  readonly source: ProtoSource;
  readonly message: string;
  readonly oneofs: readonly string[];
}

function fieldProto(line: string, { source, message, oneofs }: FieldPlace): FieldDescriptorProto {
  const match = /^(\d+) (\w+) (repeated )?([\w.]+)(?: oneof:(\w+))?$/.exec(line);
  if (match === null) throw new Error(`${line} is not a field`);
  const [, number, name = '', repeated, type = '', oneof] = match;
  const scalar = SCALARS.get(type);
  const isMap = type === 'map';
  const typeName = isMap ? `${fullName(source, message)}.${entryName(name)}` : fullName(source, type);
  return create(FieldDescriptorProtoSchema, {
    name,
    number: Number(number),
    jsonName: name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
    label: repeated === undefined && !isMap ? Label.OPTIONAL : Label.REPEATED,
    type: scalar ?? (ENUMS.has(typeName) ? Type.ENUM : Type.MESSAGE),
    ...(scalar === undefined ? { typeName } : {}),
    ...(oneof === undefined ? {} : { oneofIndex: oneofs.indexOf(oneof) }),
  });
}

function methodProto(source: ProtoSource, line: string) {
  const match = /^(\w+) (stream )?(\w+) (stream )?(\w+)$/.exec(line);
  if (match === null) throw new Error(`${line} is not a method`);
  const [, name = '', clientStream, input = '', serverStream, output = ''] = match;
  return {
    name,
    inputType: fullName(source, input),
    outputType: fullName(source, output),
    clientStreaming: clientStream !== undefined,
    serverStreaming: serverStream !== undefined,
  };
}

function fullName(source: Pick<ProtoSource, 'package'>, type: string): string {
  return type.startsWith('.') ? type : `.${source.package}.${type}`;
}
