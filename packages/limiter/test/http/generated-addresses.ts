// Random addresses, each in a random one of its spellings.
import * as fc from 'fast-check';

export interface SpelledAddress {
  readonly groups: readonly number[];
  readonly text: string;
}

const octet = fc.oneof(fc.constantFrom(0, 1, 9, 10, 99, 100, 127, 128, 255), fc.nat(255));

/** Half of them near the ranges that people trust. */
const octets: fc.Arbitrary<readonly [number, number, number, number]> = fc.oneof(
  fc.tuple(octet, octet, octet, octet),
  fc
    .tuple(
      fc.constantFrom([10, 0], [127, 0], [172, 16], [172, 31], [172, 32], [192, 168], [169, 254]),
      octet,
      octet,
    )
    .map(([[first = 0, second = 0], third, fourth]) => [first, second, third, fourth] as const),
);

export const ipv4: fc.Arbitrary<SpelledAddress> = octets.map(([a, b, c, d]) => ({
  groups: [a * 256 + b, c * 256 + d],
  text: `${a}.${b}.${c}.${d}`,
}));

const group = fc.oneof(fc.constant(0), fc.constant(0), fc.constantFrom(1, 0xff, 0xffff), fc.nat(0xffff));
const anyGroups = fc.array(group, { minLength: 8, maxLength: 8 });
const beginnings = fc.constantFrom(
  [0, 0, 0, 0, 0, 0xffff],
  [0, 0, 0, 0, 0xffff, 0],
  [0x64, 0xff9b, 0, 0, 0, 0],
  [0x64, 0xff9b, 1],
  [0x2001, 0xdb8],
  [0x2001, 0],
  [0x2002],
  [0xfe80, 0, 0, 0],
  [0xfd00],
  [0, 0, 0, 0, 0, 0, 0],
);

/** All eight groups: what is IPv4-mapped still has eight. */
export const ipv6Groups: fc.Arbitrary<readonly number[]> = fc.oneof(
  anyGroups,
  fc.tuple(beginnings, anyGroups).map(([start, rest]) => [...start, ...rest.slice(start.length)]),
);

interface Spelling {
  readonly padded: readonly boolean[];
  readonly upper: boolean;
  readonly gap: number;
  readonly dotted: boolean;
}

const spelling: fc.Arbitrary<Spelling> = fc.record({
  padded: fc.array(fc.boolean(), { minLength: 8, maxLength: 8 }),
  upper: fc.boolean(),
  gap: fc.nat(),
  dotted: fc.boolean(),
});

export const ipv6: fc.Arbitrary<SpelledAddress> = fc
  .tuple(ipv6Groups, spelling)
  .map(([groups, how]) => ({ groups, text: spell(groups, how) }));

export const anyAddress: fc.Arbitrary<SpelledAddress> = fc.oneof(ipv4, ipv6);

function spell(groups: readonly number[], { padded, upper, gap, dotted }: Spelling): string {
  const hex = groups.map((value, at) => value.toString(16).padStart(padded[at] === true ? 4 : 1, '0'));
  const tail = groups.slice(6).map((value) => `${value >> 8}.${value & 255}`);
  const parts = dotted ? [...hex.slice(0, 6), tail.join('.')] : hex;
  const gaps = gapsIn(groups.slice(0, dotted ? 6 : 8));
  const [from, end] = gaps[gap % (gaps.length + 1)] ?? [0, 0];
  const text =
    end === 0 ? parts.join(':') : `${parts.slice(0, from).join(':')}::${parts.slice(end).join(':')}`;
  return upper ? text.toUpperCase() : text;
}

/** Every stretch of zeros that `::` may stand for. */
function gapsIn(groups: readonly number[]): (readonly [from: number, end: number])[] {
  return groups.flatMap((_, from) =>
    groups
      .map((_group, at) => at + 1)
      .filter((end) => end > from && groups.slice(from, end).every((value) => value === 0))
      .map((end) => [from, end] as const),
  );
}
