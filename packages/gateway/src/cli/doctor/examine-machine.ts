import type { X509Certificate } from 'node:crypto';
import { createServer, type AddressInfo } from 'node:net';
import { splitHostPort } from 'spillgate/internal';
import { certificatesIn } from '../../config/pem-files.ts';
import { bad, good, reasonOf, warning, type DoctorFinding, type Examined } from './finding.ts';

/** Ports, and how many files a process may have open. */
export async function examineMachine(
  { config, readFile }: Examined,
  gatewayRuns: boolean,
): Promise<readonly DoctorFinding[]> {
  const ports = [
    { setting: 'server.address', address: config.server.address },
    ...(config.admin.enabled ? [{ setting: 'admin.address', address: config.admin.address }] : []),
  ];
  const found = await Promise.all(ports.map((port) => examinePort(port, gatewayRuns)));
  return [...found, ...examineOpenFiles(config, readFile)];
}

interface ConfiguredPort {
  readonly setting: string;
  readonly address: string;
}

async function examinePort(
  { setting, address }: ConfiguredPort,
  gatewayRuns: boolean,
): Promise<DoctorFinding> {
  const subject = `port ${setting} ${address}`;
  const { host, port } = splitHostPort(address);
  try {
    await listenBriefly(host, port);
    return good(subject, 'can be opened');
  } catch (failure) {
    const reason = reasonOf(failure);
    if (reason.includes('EADDRINUSE')) {
      return gatewayRuns
        ? good(subject, 'is held by the running gateway')
        : bad(
            subject,
            'is taken by another program',
            `Find it with: ss -ltnp 'sport = :${port}', or change ${setting}.`,
          );
    }
    if (reason.includes('EACCES')) {
      return bad(
        subject,
        'may not be opened by this user',
        `Give the program CAP_NET_BIND_SERVICE, or use a port from 1024 in ${setting}.`,
      );
    }
    if (reason.includes('EADDRNOTAVAIL')) {
      return bad(subject, 'is no address of this machine', `Use ":${port}" for all of its addresses.`);
    }
    return bad(subject, `cannot be opened (${reason})`, `Change ${setting}.`);
  }
}

async function listenBriefly(host: string, port: number): Promise<void> {
  const server = createServer();
  await new Promise<AddressInfo | string | null>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, ...(host === '' ? {} : { host }) }, () => resolve(server.address()));
  });
  await new Promise((resolve) => server.close(resolve));
}

/** Of the process itself: modules, log, Redis, admin server. */
const OWN_FILES = 200;
const LIMITS_FILE = '/proc/self/limits';

function examineOpenFiles(
  { server, backend, backends }: Examined['config'],
  readFile: Examined['readFile'],
): readonly DoctorFinding[] {
  const limit = openFilesAllowed(readFile);
  if (limit === undefined) return [];
  const connections = [backend, ...Object.values(backends)].reduce(
    (sum, { url, upstreams, max_conns }) =>
      sum + Math.max(1, upstreams.length + (url === undefined ? 0 : 1)) * max_conns,
    0,
  );
  const needed = server.max_connections + connections + OWN_FILES;
  const subject = 'open files';
  if (limit >= needed) return [good(subject, `${limit} are allowed, at most ${needed} are needed`)];
  return [
    warning(
      subject,
      `${limit} are allowed, but server.max_connections and backend.max_conns may need ${needed}`,
      `Raise it (ulimit -n ${needed}, or LimitNOFILE= in the unit), or lower server.max_connections to ${Math.max(1, limit - (needed - server.max_connections))}.`,
    ),
  ];
}

/** Undefined where the system does not say. */
function openFilesAllowed(readFile: Examined['readFile']): number | undefined {
  try {
    const soft = /^Max open files\s+(\S+)/m.exec(readFile(LIMITS_FILE))?.[1];
    if (soft === undefined) return undefined;
    return soft === 'unlimited' ? Infinity : Number(soft);
  } catch {
    return undefined;
  }
}

const DAY_MS = 86_400_000;
/** Most certificates are renewed 30 days before they end. */
const SOON_DAYS = 21;
const LEAST_RSA_BITS = 2048;

/** The certificate that clients see. That it can be read and fits its key is said by the configuration's own checks. */
export function examineCertificates({ config, readFile, now }: Examined): readonly DoctorFinding[] {
  const { enabled, cert_file: file } = config.server.tls;
  if (!enabled || file === undefined) return [];
  const subject = `certificate ${file}`;
  const chain = chainIn(file, readFile);
  if (chain === undefined) return [];
  const [leaf] = chain;
  const findings = [
    examineValidity(subject, leaf, now()),
    ...examineChain(subject, chain),
    ...examineKey(subject, leaf),
  ];
  return findings;
}

/** Undefined if there is none: the configuration's own checks have said so. */
function chainIn(
  file: string,
  readFile: Examined['readFile'],
): ReturnType<typeof certificatesIn> | undefined {
  try {
    return certificatesIn({ path: ['server', 'tls', 'cert_file'], file, text: readFile(file) });
  } catch {
    return undefined;
  }
}

function examineValidity(subject: string, leaf: X509Certificate, now: Date): DoctorFinding {
  const until = new Date(leaf.validTo);
  const days = Math.floor((until.getTime() - now.getTime()) / DAY_MS);
  const day = until.toISOString().slice(0, 10);
  if (new Date(leaf.validFrom) > now) {
    return bad(
      subject,
      `is not valid before ${new Date(leaf.validFrom).toISOString()}`,
      'Check the clock of this machine, or wait.',
    );
  }
  if (days < 0)
    return bad(subject, `ended on ${day}`, 'Renew it; the gateway takes a new file into use by itself.');
  if (days < SOON_DAYS) {
    return warning(subject, `ends on ${day}, in ${days} days`, 'Find out why it was not renewed.');
  }
  const names = leaf.subjectAltName?.replaceAll('DNS:', '') ?? 'no names';
  return good(subject, `is valid until ${day}, for ${names}`);
}

/** Each certificate has to be signed by the next one; the authority itself need not be sent. */
function examineChain(subject: string, chain: readonly X509Certificate[]): readonly DoctorFinding[] {
  const broken = chain.findIndex((one, at) => {
    const next = chain[at + 1];
    return next !== undefined && !one.checkIssued(next);
  });
  if (broken !== -1) {
    return [
      bad(
        subject,
        `certificate ${broken + 1} of the chain is not signed by certificate ${broken + 2}`,
        "Put the server's certificate first, then each issuer in turn.",
      ),
    ];
  }
  const [leaf] = chain;
  if (chain.length > 1 || leaf === undefined || leaf.issuer === leaf.subject) return [];
  return [
    warning(
      subject,
      'has no intermediate certificate behind it',
      'Clients that do not know its issuer refuse it: use the file with the full chain.',
    ),
  ];
}

function examineKey(subject: string, leaf: X509Certificate): readonly DoctorFinding[] {
  const { asymmetricKeyType, asymmetricKeyDetails } = leaf.publicKey;
  const bits = asymmetricKeyDetails?.modulusLength;
  if (asymmetricKeyType !== 'rsa' || bits === undefined || bits >= LEAST_RSA_BITS) return [];
  return [
    bad(
      subject,
      `has an RSA key of ${bits} bits`,
      `Clients refuse less than ${LEAST_RSA_BITS}: make a new key.`,
    ),
  ];
}
