import { FAILURE_POLICIES, type FieldDefinition, MESSAGES, METHOD, PACKAGE, SERVICE } from './definition.ts';

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
