import type { Command } from 'commander';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

interface Word {
  readonly name: string;
  readonly description: string;
  readonly options: readonly {
    readonly flag: string;
    readonly description: string;
    readonly takesValue: boolean;
    readonly takesFile: boolean;
  }[];
  /** What its argument can be, where that is known. */
  readonly values: readonly string[];
  /** Whether its argument is the name of a file. */
  readonly files: boolean;
}

const FILES: ReadonlySet<string> = new Set(['file', 'log']);

/** A script that completes commands, options and file names. */
export function completionScript(shell: Shell, program: Command): string {
  const words = program.commands.map((command): Word => ({
    name: command.name(),
    description: command.description(),
    options: optionsOf(command).flatMap(({ long, description, required, flags }) =>
      long === undefined
        ? []
        : [{ flag: long, description, takesValue: required, takesFile: flags.endsWith('<file>') }],
    ),
    values: [
      ...command.commands.map((below) => below.name()),
      ...command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
    ],
    files: command.registeredArguments.some((argument) => FILES.has(argument.name())),
  }));
  switch (shell) {
    case 'bash':
      return bash(words);
    case 'zsh':
      return zsh(words);
    default:
      return fish(words);
  }
}

/** Its own and those of the commands below it, each once. */
function optionsOf(command: Command): Command['options'] {
  const all = [command, ...command.commands].flatMap(({ options }) => options);
  return [...new Map(all.map((option) => [option.long, option])).values()];
}

function bash(words: readonly Word[]): string {
  const cases = words.map(({ name, options, values, files }) => {
    const choices = [...options.map(({ flag }) => flag), '--help', ...values].join(' ');
    const names = files ? ' $(compgen -f -- "$current")' : '';
    return `    ${name}) COMPREPLY=($(compgen -W "${choices}" -- "$current")${names}) ;;`;
  });
  const options = words.flatMap((word) => word.options.filter(({ takesFile }) => takesFile));
  const before = [...new Set(options.map(({ flag }) => flag))].join('|');
  return `_spillgate() {
  local current="\${COMP_WORDS[COMP_CWORD]}"
  case "\${COMP_WORDS[COMP_CWORD-1]}" in
    ${before}) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${words.map(({ name }) => name).join(' ')} --help --version" -- "$current"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
${cases.join('\n')}
  esac
}
complete -F _spillgate spillgate
`;
}

function zsh(words: readonly Word[]): string {
  const commands = words.map(({ name, description }) => `    '${name}:${quoted(description)}'`);
  const cases = words.map(({ name, options, values, files }) => {
    const flags = options.map(
      ({ flag, description, takesValue, takesFile }) =>
        `'${flag}[${quoted(description)}]${takesValue ? `:value:${takesFile ? '_files' : ''}` : ''}'`,
    );
    const rest = values.length > 0 ? [`'1:value:(${values.join(' ')})'`] : files ? [`'*:file:_files'`] : [];
    return `    ${name}) _arguments ${[...flags, ...rest].join(' ')} ;;`;
  });
  return `#compdef spillgate
_spillgate() {
  local -a commands
  commands=(
${commands.join('\n')}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=\${words[2]}
  shift words
  (( CURRENT-- ))
  case $command in
${cases.join('\n')}
  esac
}
compdef _spillgate spillgate
`;
}

function fish(words: readonly Word[]): string {
  const lines = words.flatMap(({ name, description, options, values, files }) => [
    `complete -c spillgate -n __fish_use_subcommand -f -a ${name} -d '${quoted(description)}'`,
    ...(files ? [] : [`complete -c spillgate -n '__fish_seen_subcommand_from ${name}' -f`]),
    ...options.map(
      ({ flag, description: meaning, takesValue, takesFile }) =>
        `complete -c spillgate -n '__fish_seen_subcommand_from ${name}' -l ${flag.slice(2)}${takesValue ? ' -r' : ''}${takesFile ? ' -F' : ''} -d '${quoted(meaning)}'`,
    ),
    ...(values.length === 0
      ? []
      : [`complete -c spillgate -n '__fish_seen_subcommand_from ${name}' -f -a '${values.join(' ')}'`]),
  ]);
  return `${lines.join('\n')}\n`;
}

/** No quote, colon or bracket that a shell would take for its own. */
function quoted(text: string): string {
  return text.replaceAll(/['[\]:`\\]/g, '');
}
