/** A fenced block of a Markdown document. */
export interface CodeBlock {
  /** Path relative to the repository. */
  readonly document: string;
  /** The line of the first line of code, from 1. */
  readonly line: number;
  /** What stands after the fence: `ts`, `ts runnable`, `sh`, ... */
  readonly info: string;
  readonly text: string;
  /** What the document says a runnable block prints: the block right after it, if that is `text output`. */
  readonly output: string | undefined;
}

/** All fenced blocks of a document, in order. */
export function codeBlocks(document: string, markdown: string): readonly CodeBlock[] {
  const blocks: CodeBlock[] = [];
  for (const match of markdown.matchAll(/^(`{3,})([^`\n]*)\n(.*?)^\1$/gms)) {
    const [, , info = '', text = ''] = match;
    const line = markdown.slice(0, match.index).split('\n').length + 1;
    blocks.push({ document, line, info: info.trim(), text, output: outputAfter(markdown, match) });
  }
  return blocks;
}

function outputAfter(markdown: string, match: RegExpExecArray): string | undefined {
  const rest = markdown.slice(match.index + match[0].length).trimStart();
  return rest.startsWith('```text output\n')
    ? rest.slice(rest.indexOf('\n') + 1, rest.indexOf('\n```\n') + 1)
    : undefined;
}
