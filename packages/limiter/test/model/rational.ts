/**
 * An exact fraction. It is never reduced: one policy only ever meets its own denominator and 1, so the
 * digits cannot grow.
 */
export interface Rational {
  readonly numerator: bigint;
  /** Always positive. */
  readonly denominator: bigint;
}

export function rational(numerator: number | bigint, denominator: number | bigint = 1n): Rational {
  return { numerator: BigInt(numerator), denominator: BigInt(denominator) };
}

export function add(a: Rational, b: Rational): Rational {
  if (a.denominator === b.denominator) {
    return { numerator: a.numerator + b.numerator, denominator: a.denominator };
  }
  return {
    numerator: a.numerator * b.denominator + b.numerator * a.denominator,
    denominator: a.denominator * b.denominator,
  };
}

export function subtract(a: Rational, b: Rational): Rational {
  return add(a, { numerator: -b.numerator, denominator: b.denominator });
}

export function multiply(a: Rational, whole: number | bigint): Rational {
  return { numerator: a.numerator * BigInt(whole), denominator: a.denominator };
}

export function isAtMost(a: Rational, b: Rational): boolean {
  if (a.denominator === b.denominator) return a.numerator <= b.numerator;
  return a.numerator * b.denominator <= b.numerator * a.denominator;
}

export function smaller(a: Rational, b: Rational): Rational {
  return isAtMost(a, b) ? a : b;
}

export function larger(a: Rational, b: Rational): Rational {
  return isAtMost(a, b) ? b : a;
}

export function floor({ numerator, denominator }: Rational): bigint {
  const truncated = numerator / denominator;
  return numerator < 0n && truncated * denominator !== numerator ? truncated - 1n : truncated;
}

export function ceil({ numerator, denominator }: Rational): bigint {
  return -floor({ numerator: -numerator, denominator });
}
