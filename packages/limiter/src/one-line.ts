const SHOWN_LENGTH = 200;

/** A foreign message for one line of ours: it may be a page of text. Keep the whole of it as `cause`. */
export function oneLine(text: string, maxLength: number = SHOWN_LENGTH): string {
  const line = text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ');
  return line.length > maxLength ? `${line.slice(0, maxLength)}...` : line;
}
