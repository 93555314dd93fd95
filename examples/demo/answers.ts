import { STATUS_CODES, type ServerResponse } from 'node:http';
import type { Decision } from 'spillgate';

export function sendAdmission(response: ServerResponse, decision: Decision): void {
  const { policy, remaining, delayMs, verdicts } = decision;
  setRateLimitHeaders(response, decision);
  send(response, 200, 'application/json', { allowed: true, policy, remaining, delayMs, verdicts });
}

export function sendDenial(response: ServerResponse, decision: Decision): void {
  const { policy, retryAfterMs, verdicts } = decision;
  const retryAfter = Math.max(1, toSeconds(retryAfterMs));
  setRateLimitHeaders(response, decision);
  response.setHeader('Retry-After', retryAfter);
  send(response, 429, 'application/problem+json', {
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    title: 'Request cannot be satisfied as assigned quota has been exceeded',
    status: 429,
    detail: `The policy "${policy}" admits this request again in ${retryAfter} s.`,
    retryAfterMs,
    'violated-policies': verdicts.filter((verdict) => !verdict.allowed).map((verdict) => verdict.policy),
  });
}

/** RFC 9457. */
export function sendProblem(response: ServerResponse, status: number, detail: string): void {
  const title = STATUS_CODES[status];
  send(response, status, 'application/problem+json', { type: 'about:blank', title, status, detail });
}

export function sendText(response: ServerResponse, text: string): void {
  response.writeHead(200, { 'Content-Type': 'text/plain; charset=utf-8' });
  response.end(text);
}

function setRateLimitHeaders(response: ServerResponse, decision: Decision): void {
  const { limit, remaining, resetAfterMs, verdicts } = decision;
  const members = verdicts.map(
    (verdict) => `"${verdict.policy}";r=${verdict.remaining};t=${toSeconds(verdict.resetAfterMs)}`,
  );
  response.setHeader('RateLimit', members.join(', '));
  response.setHeader('X-RateLimit-Limit', limit);
  response.setHeader('X-RateLimit-Remaining', remaining);
  response.setHeader('X-RateLimit-Reset', toSeconds(resetAfterMs));
}

/** Rounded up: a client that waits a part of a second too long is admitted, one that waits too short is not. */
function toSeconds(ms: number): number {
  return Math.ceil(ms / 1000);
}

function send(response: ServerResponse, status: number, contentType: string, body: object): void {
  response.writeHead(status, { 'Content-Type': contentType });
  response.end(`${JSON.stringify(body, undefined, 2)}\n`);
}
