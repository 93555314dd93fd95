import { ALGORITHM_NAMES } from '../../config/schema/policy.ts';
import {
  type FieldDefinition,
  type FieldType,
  MESSAGES,
  FAILURE_POLICIES,
  METHOD,
  PACKAGE,
  SERVICE,
} from './definition.ts';

type Schema = Readonly<Record<string, unknown>>;

const TYPES: Readonly<Record<FieldType, Schema>> = {
  string: { type: 'string' },
  int64: { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
  int32: { type: 'integer' },
  bool: { type: 'boolean' },
  map: { type: 'object', additionalProperties: { type: 'string' } },
  FailurePolicy: { type: 'string', enum: ['passthrough', 'failclosed', 'inmemoryfallback'] },
  Policy: { $ref: '#/components/schemas/Policy' },
};

/** What the types alone do not say. */
const BOUNDS: ReadonlyMap<string, Schema> = new Map<string, Schema>(
  Object.entries({
    tenant_key: { pattern: '^[A-Za-z0-9\\-_.:]{1,256}$' },
    failure_code: { minimum: 400, maximum: 599 },
    backend_url: { maxLength: 2048 },
    cost: { maximum: 1_000_000 },
    policies: { minItems: 1, maxItems: 32 },
    algorithm: {
      enum: ALGORITHM_NAMES,
    },
    name: { pattern: '^[A-Za-z0-9_.-]{1,64}$' },
  }),
);

const REQUIRED: ReadonlyMap<string, readonly string[]> = new Map<string, readonly string[]>(
  Object.entries({
    GetLimitsRequest: ['key', 'headers', 'method', 'path'],
    GetLimitsResponse: [],
    Policy: ['name'],
  }),
);

/** The published `limits-service.openapi.json`. */
export function openApiFile(): string {
  const body = (name: string) => ({
    'application/json': { schema: { $ref: `#/components/schemas/${name}` } },
    'application/protobuf': { schema: { type: 'string', format: 'binary' } },
  });
  const document = {
    openapi: '3.1.0',
    info: {
      title: 'External limits service',
      version: '1.0.0',
      description:
        'What a gateway asks for the limits of a key. Cache-Control and Expires of the answer are obeyed.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    paths: {
      '/limits': {
        post: {
          operationId: 'getLimits',
          summary: 'The limits that hold for a request.',
          requestBody: { required: true, content: body('GetLimitsRequest') },
          responses: {
            200: { description: 'What holds.', content: body('GetLimitsResponse') },
            404: { description: 'Nobody knows this key: the static limits hold.' },
            429: {
              description: 'Asked too often: this key is not asked for again before Retry-After.',
              headers: { 'Retry-After': { schema: { type: 'integer' } } },
            },
          },
        },
      },
    },
    components: {
      schemas: Object.fromEntries(
        MESSAGES.map(({ name, comment, fields }) => [
          name,
          {
            type: 'object',
            description: comment,
            required: REQUIRED.get(name),
            properties: Object.fromEntries(fields.map((field) => [field.name, propertyOf(field)])),
          },
        ]),
      ),
    },
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}

function propertyOf({ name, type, label, comment }: FieldDefinition): Schema {
  const bounds = BOUNDS.get(name) ?? {};
  return label === 'repeated'
    ? { type: 'array', items: TYPES[type], ...bounds, description: comment }
    : { ...TYPES[type], ...bounds, description: comment };
}

/** The published `ratelimit.proto`. */
export function protoFile(): string {
  const messages = MESSAGES.map(
    ({ name, comment, fields }) =>
      `// ${comment}\nmessage ${name} {\n${fields.map(fieldText).join('\n')}\n}\n`,
  );
  const policies = FAILURE_POLICIES.map(
    ({ name, number, comment }) => `  // ${comment}\n  ${name} = ${number};`,
  );
  return [
    '// Generated from packages/gateway/src/external/wire/definition.ts by npm run generate.',
    'syntax = "proto3";\n',
    `package ${PACKAGE};\n`,
    '// Knows the limits of each tenant; the gateway asks and keeps the answers as long as they allow.',
    `service ${SERVICE} {`,
    `  rpc ${METHOD}(GetLimitsRequest) returns (GetLimitsResponse);`,
    '}\n',
    ...messages,
    '// Who answers while the store of the limits cannot.',
    `enum FailurePolicy {\n${policies.join('\n')}\n}\n`,
  ].join('\n');
}

function fieldText({ name, number, type, label, comment }: FieldDefinition): string {
  const prefix = label === undefined ? '' : `${label} `;
  const typeName = type === 'map' ? 'map<string, string>' : type;
  return `  // ${comment}\n  ${prefix}${typeName} ${name} = ${number};`;
}
