import type { Endpoint } from '#gateway/admin/endpoint.js';
import { ENDPOINTS, problemsOf } from '#gateway/admin/endpoints.js';
import { PROBLEMS } from '#gateway/admin/problems.js';

/** The reference page of the admin API, from the table that requests are routed by. */
export function gatewayAdminPage(): string {
  return [INTRODUCTION, endpointTable(), ...ENDPOINTS.map(sectionOf), problemTable()].join('\n');
}

const INTRODUCTION = `<!-- Generated from packages/gateway/src/admin by \`npm run generate\`. Edit the endpoints there, or scripts/generators/gateway-admin-page.ts for the text. -->

# Admin API of the gateway

The admin server shows operators the state of a running gateway, and lets them change single keys and reload the configuration. It listens on
\`admin.address\`, which is \`127.0.0.1:9090\` unless the [configuration](gateway-configuration.md) says otherwise, and never on the port that clients use.

\`\`\`sh
curl http://127.0.0.1:9090/readyz?deep=1
curl http://127.0.0.1:9090/v1/keys/api/203.0.113.7
curl -X DELETE http://127.0.0.1:9090/v1/keys/api/203.0.113.7
curl -X PUT -H 'content-type: application/json' -d '{"average": 1000, "burst": 200}' http://127.0.0.1:9090/v1/keys/api/acme/override
curl -X POST -H 'content-type: application/json' http://127.0.0.1:9090/v1/reload
\`\`\`

The command line does the same: \`spillgate peek\`, \`spillgate forget\`, \`spillgate override\` and \`spillgate health\`.

**Access.** If \`admin.token\` is set, a request needs \`Authorization: Bearer TOKEN\`; on any address other than loopback the gateway does
not start without one. An address that sends ten wrong tokens within a minute is refused for a while, even with the right one; a
request without a token is refused and not counted. The \`Host\` of every request except a probe must be one of these: \`localhost\`, \`127.0.0.1\`,
\`[::1]\`, the host of \`admin.address\`, the address it was sent to, or one of \`admin.allowed_hosts\`. A write needs \`Content-Type: application/json\` (not a \`DELETE\`), and
must not come from a page of another site. No response has a CORS header. Every write is logged with \`"audit":true\`.

**A key in a path** is percent-encoded: \`a/b\` is \`a%2Fb\`. The key is what the rule counts by, as the decision log shows it;
if that is the client's address, any address of the client will do: \`2001:db8::1\` for \`2001:db8::/64\`.

**Overrides and blocks** are kept in Redis, for all gateways that share it; else in a file of this gateway (\`state_dir\`); else until it stops.
[fleet.md](fleet.md) says more.
`;

function endpointTable(): string {
  const rows = ENDPOINTS.map(
    (endpoint) =>
      `| \`${endpoint.method} ${endpoint.path}\` | ${endpoint.access} | ${firstSentence(endpoint.summary)} |`,
  );
  return `## Endpoints

| endpoint | access | what it does |
|---|---|---|
${rows.join('\n')}

Access is \`open\` to everyone who reaches the port, or needs an allowed \`host\`, or needs the \`token\` too. The exact shape of every request and
response is in the OpenAPI document, \`GET /openapi.json\`.
`;
}

function sectionOf(endpoint: Endpoint): string {
  const { id, method, path, summary, query, body, answers } = endpoint;
  const parameters = Object.keys(query?.shape ?? {}).map((name) => `\`${name}\``);
  const lines = [
    `## ${id}`,
    '',
    `\`${method} ${path}\``,
    '',
    summary,
    '',
    ...(parameters.length === 0 ? [] : [`Query: ${parameters.join(', ')}.`, '']),
    ...(body === undefined ? [] : [`Body: ${body.meta()?.description ?? 'JSON.'}`, '']),
    ...Object.entries(answers).map(([status, { description }]) => `- \`${status}\`: ${description}`),
    `- problems: ${problemsOf(endpoint)
      .map((code) => `\`${code}\``)
      .join(', ')}`,
    '',
  ];
  return lines.join('\n');
}

function problemTable(): string {
  const rows = Object.entries(PROBLEMS).map(
    ([code, { status, title }]) => `| \`${code}\` | ${status} | ${title} |`,
  );
  return `## Problems

Every error is \`application/problem+json\` (RFC 9457). \`detail\` names the value, what was expected and what to do; \`code\` is one of these:

| code | status | title |
|---|---|---|
${rows.join('\n')}
`;
}

function firstSentence(text: string): string {
  return text.slice(0, text.indexOf('. ') < 0 ? text.length : text.indexOf('. ') + 1);
}
