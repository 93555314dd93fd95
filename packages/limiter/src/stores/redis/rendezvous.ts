import { createHash } from 'node:crypto';

/** Anything that has a share of the keys. */
export interface Weighted {
  readonly name: string;
  readonly weight: number;
}

/**
 * Weighted rendezvous hashing: every key goes to the member with the highest score, and a score depends on the key, the
 * member's name and its weight alone. So the order of the list does not matter, a new member takes over its own share
 * only, and a lost one leaves only its own. The formula may never change: it says where states are.
 */
export function rendezvous<Member extends Weighted>(members: readonly Member[]): (text: string) => Member {
  const [first, ...rest] = members.map((member) => ({ member, seed: seedOf(member.name) }));
  if (first === undefined) throw new RangeError('rendezvous hashing needs a member');
  if (rest.length === 0) return () => first.member;
  return (text) => {
    const { high, low } = hashOf(text);
    let chosen = first.member;
    let best = score(first.seed, first.member.weight, high, low);
    for (const { member, seed } of rest) {
      const candidate = score(seed, member.weight, high, low);
      if (candidate > best || (candidate === best && member.name < chosen.name)) {
        best = candidate;
        chosen = member;
      }
    }
    return chosen;
  };
}

interface Hash {
  readonly high: number;
  readonly low: number;
}

function seedOf(name: string): Hash {
  const digest = createHash('sha256').update(name).digest();
  return { high: digest.readUInt32LE(0), low: digest.readUInt32LE(4) };
}

/** Two FNV-1a hashes from different starts. */
function hashOf(text: string): Hash {
  let high = 0x81_1c_9d_c5;
  let low = 0x01_00_01_93;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    high = Math.imul(high ^ code, 0x01_00_01_93);
    low = Math.imul(low ^ code, 0x85_eb_ca_6b);
  }
  return { high, low };
}

/** -weight / ln(u) for a u that is uniform in (0, 1): the highest of several wins in proportion to the weights. */
function score(seed: Hash, weight: number, high: number, low: number): number {
  const upper = mixed(high ^ seed.high) >>> 6;
  const lower = mixed(low ^ seed.low ^ upper) >>> 5;
  const uniform = (upper * 2 ** 27 + lower + 0.5) / 2 ** 53;
  return -weight / Math.log(uniform);
}

/** The finalizer of MurmurHash3: every bit of the input changes half of the bits of the output. */
function mixed(value: number): number {
  let hash = value ^ (value >>> 16);
  hash = Math.imul(hash, 0x85_eb_ca_6b);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0xc2_b2_ae_35);
  return hash ^ (hash >>> 16);
}
