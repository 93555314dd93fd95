import { z } from 'zod';
import { endpoint, json, type Endpoint } from './endpoint.ts';
import { GATEWAY_ENDPOINTS, PROBE_ENDPOINTS } from './gateway-endpoints.ts';
import { KEY_ENDPOINTS } from './key-endpoints.ts';
import { openApiDocument } from './openapi.ts';

/** The one table of endpoints. Below `/ui` there is room for a dashboard. */
export const ENDPOINTS: readonly Endpoint[] = [
  ...PROBE_ENDPOINTS,
  ...GATEWAY_ENDPOINTS,
  ...KEY_ENDPOINTS,
  ...pageEndpoints(() => ENDPOINTS),
];

/** What describes the others. Neither knows anything that the documentation does not say, so neither needs the token. */
function pageEndpoints(all: () => readonly Endpoint[]): readonly Endpoint[] {
  return [
    endpoint({
      id: 'openapi',
      method: 'GET',
      path: '/openapi.json',
      summary: 'This API as an OpenAPI 3.1 document.',
      access: 'host',
      answers: { 200: json('The document.', z.record(z.string(), z.unknown())) },
      handle: (_, { version }) => ({ status: 200, value: openApiDocument(all(), version) }),
    }),
    endpoint({
      id: 'index',
      method: 'GET',
      path: '/',
      summary: 'A page that lists these endpoints.',
      access: 'host',
      answers: {
        200: { description: 'The page.', schema: undefined, contentType: 'text/html; charset=utf-8' },
      },
      handle: () => ({ status: 200, value: page(all()) }),
    }),
  ];
}

/** Nothing that a client or a configuration chose stands on it. */
function page(endpoints: readonly Endpoint[]): string {
  const rows = endpoints.map(({ method, path, summary }) => {
    const place =
      method === 'GET' && !path.includes('{') ? `<a href="${path}">${path}</a>` : `<code>${path}</code>`;
    return `<tr><td>${method}</td><td>${place}</td><td>${summary.replaceAll('`', '')}</td></tr>`;
  });
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Spillgate</title></head>
<body>
<h1>Spillgate</h1>
<table>
${rows.join('\n')}
</table>
</body>
</html>
`;
}
