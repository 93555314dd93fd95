// Traffic as a shop has it: many visitors now and then, some busy integrations, one that has gone wild.
import { createWriteStream } from 'node:fs';
import { once } from 'node:events';

export interface ShopRequest {
  readonly atMs: number;
  readonly client: string;
  readonly method: string;
  readonly target: string;
  readonly tookMs: number;
}

const START_MS = Date.UTC(2026, 10, 18, 10);
const AGENT =
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0 Safari/537.36';
const PLACES = [
  '/',
  '/search?q=lamp',
  '/static/app.4f9a.js',
  '/static/style.css',
  '/api/cart',
  '/api/items/',
];
const PER_SECOND = 1000;
const VISITORS = 20_000;

/** The same requests every time. */
function shopRequest(at: number): ShopRequest {
  const chance = hashed(at);
  const kind = chance % 100;
  const client = kind < 60 ? visitor(chance >>> 7) : kind < 95 ? integration(chance >>> 7) : '198.51.100.66';
  const place = PLACES[(chance >>> 11) % PLACES.length] ?? '/';
  const target = place.endsWith('/items/') ? `${place}${(chance >>> 14) % 5000}` : place;
  return {
    atMs: START_MS + (at * 1000) / PER_SECOND,
    client,
    method: target.startsWith('/api/cart') && kind % 3 === 0 ? 'POST' : 'GET',
    target,
    tookMs: 2 + (chance % 40),
  };
}

function visitor(number: number): string {
  const one = number % VISITORS;
  return `203.0.${one >>> 8}.${one & 255}`;
}

function integration(number: number): string {
  return `192.0.2.${number % 40}`;
}

/** Looks random, and is not (murmur's finisher). */
function hashed(at: number): number {
  let mixed = Math.imul(at ^ (at >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

function calendar(ms: number): string {
  const date = new Date(ms);
  const two = (number: number): string => String(number).padStart(2, '0');
  return `${two(date.getUTCDate())}/${MONTHS[date.getUTCMonth()]}/${date.getUTCFullYear()}:${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())} +0000`;
}

type WriteLine = (request: ShopRequest, at: number) => string;

/** A line of each format, as the programs write them. */
export const LINES: ReadonlyMap<string, WriteLine> = new Map<string, WriteLine>([
  [
    'combined',
    ({ atMs, client, method, target }, at) =>
      `${client} - - [${calendar(atMs)}] "${method} ${target} HTTP/1.1" 200 ${at % 9000} "https://shop.example/" "${AGENT}"`,
  ],
  [
    'spillgate',
    ({ atMs, client, method, target, tookMs }, at) =>
      `{"level":"info","time":"${new Date(atMs + tookMs).toISOString()}","id":"0b1c6b4c-0000-4000-8000-${String(at).padStart(12, '0')}","at":${(atMs / 1000).toFixed(6)},"outcome":"forwarded","client":"${client}","method":"${method}","scheme":"https","host":"shop.example","path":"${target.split('?')[0]}","protocol":"HTTP/1.1","status":200,"rule":"all","upstream":"http://10.0.0.7:3000","received":0,"sent":2326,"ms":${tookMs},"upstreamMs":${tookMs},"msg":"request"}`,
  ],
  [
    'caddy',
    ({ atMs, client, method, target, tookMs }) =>
      `{"level":"info","ts":${(atMs + tookMs) / 1000},"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"${client}","client_ip":"${client}","proto":"HTTP/2.0","method":"${method}","host":"shop.example","uri":"${target}","headers":{"User-Agent":["${AGENT}"]}},"duration":${tookMs / 1000},"status":200}`,
  ],
  [
    'envoy',
    ({ atMs, client, method, target, tookMs }) =>
      `{"start_time":"${new Date(atMs).toISOString()}","method":"${method}","path":"${target}","protocol":"HTTP/1.1","response_code":200,"duration":${tookMs},"user_agent":"${AGENT}","authority":"shop.example","downstream_remote_address":"${client}:39170"}`,
  ],
  [
    'traefik',
    ({ atMs, client, method, target, tookMs }) =>
      `{"ClientAddr":"${client}:39170","ClientHost":"${client}","DownstreamStatus":200,"Duration":${tookMs * 1e6},"RequestHost":"shop.example","RequestMethod":"${method}","RequestPath":"${target}","RequestScheme":"https","StartUTC":"${new Date(atMs).toISOString()}"}`,
  ],
  [
    'alb',
    ({ atMs, client, method, target, tookMs }) =>
      `h2 ${new Date(atMs + tookMs).toISOString()} app/lb/1 ${client}:2817 10.0.0.1:80 0.000 ${(tookMs / 1000).toFixed(3)} 0.000 200 200 34 366 "${method} https://shop.example:443${target} HTTP/2.0" "${AGENT}" ECDHE TLSv1.2 arn "Root=1" "-" "-" 0 2026-10-10T13:55:36Z "forward" "-" "-"`,
  ],
]);

const LINES_PER_WRITE = 5000;

/** Writes a log of so many lines; the file may be huge, the memory is not. */
export async function writeLog(path: string, format: string, lines: number): Promise<void> {
  const line = LINES.get(format);
  if (line === undefined) throw new RangeError(`there is no format ${format}`);
  const file = createWriteStream(path);
  for (let at = 0; at < lines; at += LINES_PER_WRITE) {
    const portion: string[] = [];
    for (let each = at; each < Math.min(lines, at + LINES_PER_WRITE); each += 1) {
      portion.push(`${line(shopRequest(each), each)}\n`);
    }
    if (!file.write(portion.join(''))) await once(file, 'drain');
  }
  file.end();
  await once(file, 'finish');
}
