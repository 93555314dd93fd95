// HTTP/1.1 and HTTP/2 to servers; README.md says what is accepted and what is not.
export { createConnector, targetOf, type ClientTls, type Connector, type ResolveAll } from './connect.ts';
export { fetchWhole, headerLines, serviceAt, type WholeResponse } from './fetch-whole.ts';
export { READ_INTO_ONE_BUFFER } from './http1/connection.ts';
export type { ResponseHead } from './http1/response-head.ts';
export { ResponseParser, type ResponseListener } from './http1/response-parser.ts';
export { Http1Pool } from './http1/pool.ts';
export { Http2Pool } from './http2/pool.ts';
export type { RequestControl, RequestPool, ResponseHandler } from './request.ts';
