/** Many ways to write an IPv4 address that parsers of hosts take for it. */
export function spellingsOf(address: string): readonly string[] {
  const bytes = address.split('.').map(Number);
  const [a = 0, b = 0, c = 0, d = 0] = bytes;
  const last16 = c * 256 + d;
  const last24 = b * 65_536 + last16;
  const all = a * 2 ** 24 + last24;
  const octal = (part: number): string => `0${part.toString(8)}`;
  const hex = (part: number): string => `0x${part.toString(16)}`;
  const high = (a * 256 + b).toString(16);
  const low = last16.toString(16);
  return [
    address,
    `${address}.`,
    bytes.map(octal).join('.'),
    bytes.map((part) => `000${octal(part)}`).join('.'),
    bytes.map(hex).join('.'),
    bytes.map((part) => hex(part).toUpperCase()).join('.'),
    `${hex(a)}.${b}.${octal(c)}.${d}`,
    `${a}.${b}.${last16}`,
    `${a}.${last24}`,
    String(all),
    hex(all),
    octal(all),
    `${hex(a)}.${last24}`,
    `${octal(a)}.${hex(b)}.${last16}`,
    percentEncoded(address),
    wide(address),
    circled(address),
    address.replaceAll('.', '\u3002'),
    address.replaceAll('.', '\uFF0E'),
    `[::ffff:${address}]`,
    `[::ffff:${high}:${low}]`,
    `[0:0:0:0:0:ffff:${high}:${low}]`,
    `[0000:0000:0000:0000:0000:FFFF:${high}:${low}]`,
    `[::${address}]`,
    `[::${high}:${low}]`,
    `[64:ff9b::${address}]`,
    `[64:ff9b::${high}:${low}]`,
    `[64:ff9b:1::${high}:${low}]`,
    `[2002:${high}:${low}::]`,
    `[2002:${high}:${low}::1]`,
    `[2001:0:${high}:${low}::]`,
    `[2001::${high}:${low}]`,
    `[::ffff:0:${high}:${low}]`,
    `[fe80::5efe:${high}:${low}]`,
    `[2606:4700::5efe:${high}:${low}]`,
  ];
}

function percentEncoded(text: string): string {
  return Buffer.from(text).toString('hex').replaceAll(/../g, '%$&');
}

function wide(text: string): string {
  return text.replaceAll(/\d/g, (digit) => String.fromCodePoint(0xff_10 + Number(digit)));
}

function circled(text: string): string {
  return text.replaceAll(/\d/g, (digit) =>
    digit === '0' ? '\u24EA' : String.fromCodePoint(0x24_5f + Number(digit)),
  );
}

/** One of each kind that nobody outside may reach. */
export const FORBIDDEN_IPV4 = [
  '127.0.0.1',
  '127.255.255.254',
  '0.0.0.0',
  '0.1.2.3',
  '10.1.2.3',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.1.1',
  '169.254.169.254',
  '100.64.0.1',
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.192',
  '192.0.2.1',
  '198.18.0.1',
  '198.51.100.1',
  '203.0.113.1',
  '192.88.99.1',
  '224.0.0.1',
  '240.0.0.1',
  '255.255.255.255',
];

export const FORBIDDEN_IPV6 = [
  '::',
  '::1',
  'fe80::1',
  'febf::1',
  'fec0::1',
  'fc00::1',
  'fd00:ec2::254',
  'fdff::1',
  'ff02::1',
  '2001:db8::1',
  '3fff::1',
  '2001:2::1',
  '2001:10::1',
  '100::1',
  '5f00::1',
  '4000::1',
];
