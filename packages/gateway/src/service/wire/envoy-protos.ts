// The messages and services that other systems ask us with: only the fields that we read or write, with the names and
// numbers that the protocols have.

/** One .proto file. */
export interface ProtoSource {
  readonly file: string;
  readonly package: string;
  readonly imports: readonly string[];
  /**
   * By name, `Outer.Inner` where they nest. A field is `1 name type`, with `repeated` before the type and `oneof:name`
   * behind it; `map` is from texts to texts. A type that begins with a dot is whole, else it is of this package.
   */
  readonly messages: Readonly<Record<string, readonly string[]>>;
  /** The names of the numbers from 0 on. */
  readonly enums?: Readonly<Record<string, readonly string[]>>;
  /** `Method Input Output`, with `stream` before what is a stream. */
  readonly services?: Readonly<Record<string, readonly string[]>>;
}

const CORE: ProtoSource = {
  file: 'envoy/config/core/v3/base.proto',
  package: 'envoy.config.core.v3',
  imports: ['google/protobuf/wrappers.proto'],
  messages: {
    HeaderValue: ['1 key string', '2 value string', '3 raw_value bytes'],
    HeaderMap: ['1 headers repeated HeaderValue'],
    HeaderValueOption: [
      '1 header HeaderValue',
      '2 append .google.protobuf.BoolValue',
      '3 append_action HeaderAppendAction',
    ],
    SocketAddress: ['2 address string', '3 port_value uint32'],
    Address: ['1 socket_address SocketAddress'],
  },
  enums: {
    HeaderAppendAction: [
      'APPEND_IF_EXISTS_OR_ADD',
      'ADD_IF_ABSENT',
      'OVERWRITE_IF_EXISTS_OR_ADD',
      'OVERWRITE_IF_EXISTS',
    ],
  },
};

const TYPES: ProtoSource = {
  file: 'envoy/type/v3/types.proto',
  package: 'envoy.type.v3',
  imports: [],
  messages: { HttpStatus: ['1 code int32'] },
  enums: { RateLimitUnit: ['UNKNOWN', 'SECOND', 'MINUTE', 'HOUR', 'DAY', 'MONTH', 'YEAR'] },
};

const DESCRIPTOR: ProtoSource = {
  file: 'envoy/extensions/common/ratelimit/v3/ratelimit.proto',
  package: 'envoy.extensions.common.ratelimit.v3',
  imports: ['envoy/type/v3/types.proto', 'google/protobuf/wrappers.proto'],
  messages: {
    RateLimitDescriptor: [
      '1 entries repeated RateLimitDescriptor.Entry',
      '2 limit RateLimitDescriptor.RateLimitOverride',
      '3 hits_addend .google.protobuf.UInt64Value',
      '4 is_negative_hits bool',
    ],
    'RateLimitDescriptor.Entry': ['1 key string', '2 value string'],
    'RateLimitDescriptor.RateLimitOverride': [
      '1 requests_per_unit uint32',
      '2 unit .envoy.type.v3.RateLimitUnit',
    ],
  },
};

const RATE_LIMIT: ProtoSource = {
  file: 'envoy/service/ratelimit/v3/rls.proto',
  package: 'envoy.service.ratelimit.v3',
  imports: [
    'envoy/config/core/v3/base.proto',
    'envoy/extensions/common/ratelimit/v3/ratelimit.proto',
    'google/protobuf/duration.proto',
    'google/protobuf/struct.proto',
  ],
  messages: {
    RateLimitRequest: [
      '1 domain string',
      '2 descriptors repeated .envoy.extensions.common.ratelimit.v3.RateLimitDescriptor',
      '3 hits_addend uint32',
    ],
    RateLimitResponse: [
      '1 overall_code RateLimitResponse.Code',
      '2 statuses repeated RateLimitResponse.DescriptorStatus',
      '3 response_headers_to_add repeated .envoy.config.core.v3.HeaderValue',
      '4 request_headers_to_add repeated .envoy.config.core.v3.HeaderValue',
      '5 raw_body bytes',
      '6 dynamic_metadata .google.protobuf.Struct',
    ],
    'RateLimitResponse.RateLimit': [
      '1 requests_per_unit uint32',
      '2 unit RateLimitResponse.RateLimit.Unit',
      '3 name string',
    ],
    'RateLimitResponse.DescriptorStatus': [
      '1 code RateLimitResponse.Code',
      '2 current_limit RateLimitResponse.RateLimit',
      '3 limit_remaining uint32',
      '4 duration_until_reset .google.protobuf.Duration',
    ],
  },
  enums: {
    'RateLimitResponse.Code': ['UNKNOWN', 'OK', 'OVER_LIMIT'],
    'RateLimitResponse.RateLimit.Unit': [
      'UNKNOWN',
      'SECOND',
      'MINUTE',
      'HOUR',
      'DAY',
      'MONTH',
      'YEAR',
      'WEEK',
    ],
  },
  services: {
    RateLimitService: ['ShouldRateLimit RateLimitRequest RateLimitResponse'],
  },
};

const RPC_STATUS: ProtoSource = {
  file: 'google/rpc/status.proto',
  package: 'google.rpc',
  imports: ['google/protobuf/any.proto'],
  messages: { Status: ['1 code int32', '2 message string', '3 details repeated .google.protobuf.Any'] },
};

const EXT_AUTHZ: ProtoSource = {
  file: 'envoy/service/auth/v3/external_auth.proto',
  package: 'envoy.service.auth.v3',
  imports: [
    'envoy/config/core/v3/base.proto',
    'envoy/type/v3/types.proto',
    'google/protobuf/struct.proto',
    'google/rpc/status.proto',
  ],
  messages: {
    AttributeContext: ['1 source AttributeContext.Peer', '4 request AttributeContext.Request'],
    'AttributeContext.Peer': ['1 address .envoy.config.core.v3.Address'],
    'AttributeContext.Request': ['2 http AttributeContext.HttpRequest'],
    'AttributeContext.HttpRequest': [
      '1 id string',
      '2 method string',
      '3 headers map',
      '4 path string',
      '5 host string',
      '6 scheme string',
      '10 protocol string',
      '13 header_map .envoy.config.core.v3.HeaderMap',
    ],
    CheckRequest: ['1 attributes AttributeContext'],
    DeniedHttpResponse: [
      '1 status .envoy.type.v3.HttpStatus',
      '2 headers repeated .envoy.config.core.v3.HeaderValueOption',
      '3 body string',
    ],
    OkHttpResponse: [
      '2 headers repeated .envoy.config.core.v3.HeaderValueOption',
      '5 headers_to_remove repeated string',
      '6 response_headers_to_add repeated .envoy.config.core.v3.HeaderValueOption',
    ],
    CheckResponse: [
      '1 status .google.rpc.Status',
      '2 denied_response DeniedHttpResponse oneof:http_response',
      '3 ok_response OkHttpResponse oneof:http_response',
      '4 dynamic_metadata .google.protobuf.Struct',
    ],
  },
  services: { Authorization: ['Check CheckRequest CheckResponse'] },
};

const HEALTH: ProtoSource = {
  file: 'grpc/health/v1/health.proto',
  package: 'grpc.health.v1',
  imports: [],
  messages: {
    HealthCheckRequest: ['1 service string'],
    HealthCheckResponse: ['1 status HealthCheckResponse.ServingStatus'],
  },
  enums: { 'HealthCheckResponse.ServingStatus': ['UNKNOWN', 'SERVING', 'NOT_SERVING', 'SERVICE_UNKNOWN'] },
  services: {
    Health: [
      'Check HealthCheckRequest HealthCheckResponse',
      'Watch HealthCheckRequest stream HealthCheckResponse',
    ],
  },
};

/** grpcurl asks for the first; older tools for the second, which has the same messages. */
function reflection(version: 'v1' | 'v1alpha'): ProtoSource {
  return {
    file: `grpc/reflection/${version}/reflection.proto`,
    package: `grpc.reflection.${version}`,
    imports: [],
    messages: {
      ServerReflectionRequest: [
        '1 host string',
        '3 file_by_filename string oneof:message_request',
        '4 file_containing_symbol string oneof:message_request',
        '7 list_services string oneof:message_request',
      ],
      ServerReflectionResponse: [
        '1 valid_host string',
        '2 original_request ServerReflectionRequest',
        '4 file_descriptor_response FileDescriptorResponse oneof:message_response',
        '6 list_services_response ListServiceResponse oneof:message_response',
        '7 error_response ErrorResponse oneof:message_response',
      ],
      FileDescriptorResponse: ['1 file_descriptor_proto repeated bytes'],
      ListServiceResponse: ['1 service repeated ServiceResponse'],
      ServiceResponse: ['1 name string'],
      ErrorResponse: ['1 error_code int32', '2 error_message string'],
    },
    services: {
      ServerReflection: [
        'ServerReflectionInfo stream ServerReflectionRequest stream ServerReflectionResponse',
      ],
    },
  };
}

/** Each after those that it imports. */
export const PROTO_SOURCES: readonly ProtoSource[] = [
  CORE,
  TYPES,
  DESCRIPTOR,
  RATE_LIMIT,
  RPC_STATUS,
  EXT_AUTHZ,
  HEALTH,
  reflection('v1'),
  reflection('v1alpha'),
];
