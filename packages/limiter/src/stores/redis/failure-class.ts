import { LimiterError, type ErrorCode } from '../../errors.ts';
import { oneLine } from '../../one-line.ts';

/** What the server answered instead of deciding, told by the first word of its message. */
const TRANSIENT = [
  'BUSY',
  'CLUSTERDOWN',
  'LOADING',
  'MASTERDOWN',
  'MISCONF',
  'NOREPLICAS',
  'OOM',
  'READONLY',
  'TRYAGAIN',
  'UNKILLABLE',
];
const CONFIGURATION = ['CROSSSLOT', 'DENIED', 'NOAUTH', 'NOPERM', 'WRONGPASS'];
/** Answers of a server that is well: the command did not run there, or not on this value. */
const WELL = ['ASK', 'MOVED', 'NOSCRIPT', 'WRONGTYPE'];
const MISCONFIGURED_MESSAGES = [
  /^ERR (?:unknown command|invalid password|DB index|.*without any password configured)/i,
  /certificate|altnames|wrong version number/i,
];

/** Servers before 7.0 wrap what a command inside a script answered. */
const EMBEDDED_CODE = /(?:^|-)([A-Z]+) /g;

/** The code with which the server refused, such as `READONLY`; undefined when there was no answer at all. */
export function replyCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const codes = [...error.message.matchAll(EMBEDDED_CODE)].map(([, code]) => code);
  return codes.find((code) => code !== undefined && KNOWN_CODES.has(code));
}

const KNOWN_CODES: ReadonlySet<string> = new Set([...TRANSIENT, ...CONFIGURATION, ...WELL]);

/** True when the error shows a server that is up and answers: it says nothing against the server. */
export function isAnswer(error: unknown): boolean {
  const code = replyCode(error);
  if (code !== undefined) return WELL.includes(code) || code === 'TRYAGAIN';
  return error instanceof Error && /^(?:ERR .*)?SPILLGATE /.test(error.message);
}

/**
 * True when a server answered and did not decide: it will answer the next call too, so that an answer alone proves
 * nothing.
 */
export function isRefusal({ code, cause }: LimiterError): boolean {
  return code === 'STORE_MISCONFIGURED' || replyCode(cause) !== undefined;
}

/** The same failure as an error of ours: its code tells whether waiting or an operator helps. */
export function toStoreError(node: string, error: unknown): LimiterError {
  if (error instanceof LimiterError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  const message = `${node} could not decide: ${oneLine(reason)}`;
  return new LimiterError(codeFor(error), withAdvice(message), { cause: error });
}

/** What an operator can do about a refusal that does not tell. */
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [
    /WRONGPASS|NOAUTH|invalid password|without any password/,
    'give the store the username and password of the server',
  ],
  [/DENIED/, 'set a password on the server, which is in protected mode, or bind it to an address'],
  [/CROSSSLOT/, 'the server is one of a cluster: name it with `cluster: { urls }`'],
  [/DB index/, 'give the store a database that the server has'],
  [/wrong version number/, 'the server and the store have to agree on TLS: rediss:// or redis://'],
  [
    /certificate|altnames/i,
    'give the store the CA that signed the certificate of the server, and the name in it',
  ],
];

function withAdvice(message: string): string {
  const [, advice] = ADVICE.find(([pattern]) => pattern.test(message)) ?? [];
  return advice === undefined ? message : `${message.replace(/\.$/, '')}; ${advice}.`;
}

function codeFor(error: unknown): ErrorCode {
  const code = replyCode(error);
  if (code === 'WRONGTYPE') return 'STATE_INVALID';
  if (code !== undefined && CONFIGURATION.includes(code)) return 'STORE_MISCONFIGURED';
  if (code === undefined && error instanceof Error && isMisconfiguration(error)) return 'STORE_MISCONFIGURED';
  return 'STORE_UNAVAILABLE';
}

function isMisconfiguration({ message }: Error): boolean {
  return MISCONFIGURED_MESSAGES.some((pattern) => pattern.test(message));
}

export interface Redirection {
  readonly kind: 'ASK' | 'MOVED';
  /** `host:port`; the host is empty when it is the one that answered. */
  readonly address: string;
}

/** Where a cluster's node sends us instead. The command did not run. */
export function parseRedirection(error: unknown): Redirection | undefined {
  if (!(error instanceof Error)) return undefined;
  const [, kind, address] = /^(ASK|MOVED) \d+ (\S*:\d+)$/.exec(error.message) ?? [];
  if (address === undefined) return undefined;
  return { kind: kind === 'ASK' ? 'ASK' : 'MOVED', address };
}
