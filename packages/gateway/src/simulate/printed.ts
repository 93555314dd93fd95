const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** What strangers sent, without anything that moves a cursor, breaks a line or turns the direction of a text. */
export function printed(text: string): string {
  return text.replaceAll(UNPRINTABLE, '?');
}
