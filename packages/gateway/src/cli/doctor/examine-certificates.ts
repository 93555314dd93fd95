import type { X509Certificate } from 'node:crypto';
import { certificatesIn } from '../../config/pem-files.ts';
import { bad, good, warning, type DoctorFinding, type Examined } from './finding.ts';

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
