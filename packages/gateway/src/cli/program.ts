import { Argument, Command, CommanderError } from 'commander';
import { DEFAULT_FILE } from '../config/starter.ts';
import type { BenchOptions } from './bench/bench-command.ts';
import { completionScript, SHELLS, type Shell } from './completion.ts';
import type { InitOptions, OutputOptions } from './config-commands.ts';
import type { DoctorOptions } from './doctor/doctor-command.ts';
import type { ExplainOptions } from './explain-command.ts';
import { health, type HealthOptions } from './key-commands.ts';
import { CommandFailure, EXIT, type End, type ExitCode, type Host, examples } from './host.ts';
import {
  addApiKeyCommands,
  ADMIN,
  addKeyCommands,
  CONFIG,
  JSON_OUTPUT,
  TOKEN_HELP,
} from './key-command-line.ts';
import { addLogCommands } from './log-commands.ts';
import type { RunOptions } from './run.ts';

const EXAMPLES = `${examples(
  ['spillgate run', 'see it work, in front of a built-in demo service'],
  [`spillgate run ${DEFAULT_FILE}`, 'run it in front of your own service'],
  [`spillgate serve ${DEFAULT_FILE}`, 'answer Envoy, nginx, Caddy and applications in any language'],
  ['spillgate init', `write a commented ${DEFAULT_FILE}`],
  [`spillgate check ${DEFAULT_FILE}`, 'report every problem, with line and column'],
  [`spillgate config ${DEFAULT_FILE}`, 'print every setting and where it came from'],
  ['spillgate schema > schema.json', 'completion and checks in your editor'],
  [`spillgate doctor ${DEFAULT_FILE}`, 'examine everything it depends on'],
  ['spillgate peek api 203.0.113.7', 'show the state of a key'],
  ['spillgate bench http://127.0.0.1:8080/', 'send load and measure the responses'],
  ['spillgate simulate --config new.yaml access.log', 'who would have been denied'],
  ['spillgate api-keys add acme', 'make an API key'],
  ['source <(spillgate completion bash)', 'turn on completion in your shell'],
)}

Exit codes: 0 success, 1 the configuration or the gateway has problems, 2 wrong usage or the command could not do its work.`;

/** Runs one command line, without the name of the program. */
export async function runCommandLine(
  args: readonly string[],
  host: Host,
  version: string,
): Promise<ExitCode> {
  let exitCode: ExitCode = EXIT.ok;
  const program = commandLine(host, version, async (code) => {
    exitCode = await code;
  });
  try {
    await program.parseAsync(known(args, program), { from: 'user' });
    return exitCode;
  } catch (failure) {
    if (failure instanceof CommandFailure) {
      host.writeError(`${failure.message}\n`);
      return EXIT.usage;
    }
    if (!(failure instanceof CommanderError)) throw failure;
    return failure.exitCode === 0 ? EXIT.ok : EXIT.usage;
  }
}

/**
 * Without `--help` behind a command that does not exist, or `help` before it: that would be answered with the help of
 * the program, as if all were well.
 */
function known(args: readonly string[], program: Command): readonly string[] {
  const names = args.filter((arg) => !arg.startsWith('-'));
  const name = names[0] === 'help' ? names[1] : names[0];
  const exists = name === undefined || program.commands.some((command) => command.name() === name);
  return exists ? args : args.filter((arg) => !HELP.includes(arg));
}

const HELP: readonly string[] = ['help', '--help', '-h'];

function commandLine(host: Host, version: string, end: End): Command {
  const program = new Command('spillgate')
    .description('A reverse proxy that enforces rate limits in front of any HTTP service.')
    .version(version)
    .exitOverride()
    .configureHelp({ subcommandTerm })
    .configureOutput({ writeOut: host.write, writeErr: host.writeError })
    .addHelpText('after', EXAMPLES);
  program
    .command('run')
    .description('Run the gateway; without a configuration, in front of a built-in demo service')
    .argument('[file]', 'the configuration file; default: SPILLGATE_CONFIG, or none')
    .option('-c, --config <file>', 'the same as [file]')
    .addHelpText(
      'after',
      examples(
        ['spillgate run', 'a demo that needs no configuration'],
        [`spillgate run ${DEFAULT_FILE}`, 'in front of your service'],
        ['SPILLGATE_BACKEND_URL=http://127.0.0.1:3000 spillgate run', 'the same without a file'],
        [
          `SPILLGATE_SERVER_ADDRESS=:80 spillgate run ${DEFAULT_FILE}`,
          'on another port; every setting has a variable',
        ],
      ),
    )
    .action((file: string | undefined, options: RunOptions, command: Command) =>
      end(runLater(host, { config: namedOnce(file, options, command) }, version)),
    );
  program
    .command('serve')
    .description('Run the decision service for other proxies and languages, without the proxy')
    .argument('[file]', 'the configuration file; default: SPILLGATE_CONFIG, or none')
    .option('-c, --config <file>', 'the same as [file]')
    .addHelpText('after', examples([`spillgate serve ${DEFAULT_FILE}`, 'HTTP and gRPC on 127.0.0.1:8081']))
    .action((file: string | undefined, options: RunOptions, command: Command) =>
      end(runLater(host, { config: namedOnce(file, options, command), serveOnly: true }, version)),
    );
  addConfigCommands(program, host, end);
  addStarterCommands(program, host, end);
  addGatewayCommands(program, host, end);
  addLogCommands(program, host, end);
  addApiKeyCommands(program, host, end);
  program
    .command('completion')
    .description('Print a completion script for a shell')
    .addArgument(new Argument('<shell>', 'your shell').choices(SHELLS))
    .addHelpText(
      'after',
      examples(
        ['source <(spillgate completion bash)', 'in this shell; in ~/.bashrc for all'],
        ['source <(spillgate completion zsh)', 'the same for zsh, in ~/.zshrc after compinit'],
        ['spillgate completion fish > ~/.config/fish/completions/spillgate.fish'],
      ),
    )
    .action((shell: Shell) => {
      host.write(completionScript(shell, program));
    });
  pointToHelp(program, 'spillgate');
  return program;
}

/** Whoever made a mistake with a command is shown the way to the help of that command. */
function pointToHelp(command: Command, path: string): void {
  command.showHelpAfterError(`(see ${path} --help)`);
  for (const below of command.commands) pointToHelp(below, `${path} ${below.name()}`);
}

/** The file of a command that takes it as an argument or as an option. */
function namedOnce(file: string | undefined, { config }: RunOptions, command: Command): string | undefined {
  if (file !== undefined && config !== undefined) {
    command.error(`error: the file is named twice, as ${file} and with --config ${config}; name it once`);
  }
  return file ?? config;
}

/** A command in the list of all, without saying each time that there are options. */
function subcommandTerm(command: Command): string {
  return `${command.name()} ${command.usage()}`.replace(/ \[options\]/, '');
}

function addConfigCommands(program: Command, host: Host, end: End): void {
  // Each command loads only what it needs: a health check runs every few seconds.
  const load = () => import('./config-commands.ts');
  program
    .command('check')
    .description('Report every problem in a configuration file')
    .argument('<file>', 'the configuration file; - is standard input')
    .option('--json', 'as JSON')
    .addHelpText(
      'after',
      examples(
        [`spillgate check ${DEFAULT_FILE}`],
        [`spillgate check --json ${DEFAULT_FILE}`, 'for a pipeline: exits with 1 if the file is invalid'],
      ),
    )
    .action((file: string, options: OutputOptions) =>
      end(load().then(({ check }) => check(host, file, options))),
    );
  program
    .command('config')
    .description('Print every setting and where its value came from')
    .argument('[file]', 'the configuration file; default: SPILLGATE_CONFIG, or none')
    .option('-c, --config <file>', 'the same as [file]')
    .option('--json', 'as JSON')
    .addHelpText(
      'after',
      examples(
        ['spillgate config', 'every default, and what the environment sets'],
        [`spillgate config ${DEFAULT_FILE}`, 'with a file'],
      ),
    )
    .action((file: string | undefined, options: OutputOptions & RunOptions, command: Command) => {
      const config = namedOnce(file, options, command);
      return end(load().then(({ showConfig }) => showConfig(host, { ...options, config })));
    });
}

/** What one starts to write a configuration with. */
function addStarterCommands(program: Command, host: Host, end: End): void {
  const load = () => import('./config-commands.ts');
  program
    .command('init')
    .description('Write a commented configuration file to start from')
    .argument('[file]', 'where to write it', DEFAULT_FILE)
    .option('--force', 'replace an existing file')
    .option('--for <what>', 'for express, nginx, envoy or llm, with the files that these need')
    .addHelpText(
      'after',
      examples(
        ['spillgate init', `writes ${DEFAULT_FILE}`],
        ['spillgate init gateway.yaml --force'],
        ['spillgate init --for nginx', `writes ${DEFAULT_FILE} and nginx.conf`],
      ),
    )
    .action((file: string, options: InitOptions) =>
      end(load().then(({ init }) => init(host, file, options))),
    );
  program
    .command('schema')
    .description('Print the JSON Schema of the configuration file')
    .addHelpText(
      'after',
      examples([
        'spillgate schema > schema.json',
        `then begin ${DEFAULT_FILE} with: # yaml-language-server: $schema=schema.json`,
      ]),
    )
    .action(() => end(load().then(({ schema }) => schema(host))));
}

/** Loaded only when it is asked for: the other commands need nothing of a gateway, and start faster without it. */
async function runLater(host: Host, options: RunOptions, version: string): Promise<ExitCode> {
  const { run } = await import('./run.ts');
  return run(host, options, version);
}

/** Commands about a gateway that runs, or is going to. */
function addGatewayCommands(program: Command, host: Host, end: End): void {
  addKeyCommands(program, host, end);
  addExplainCommand(program, host, end);
  program
    .command('health')
    .description('Exit with 0 if the gateway takes requests, otherwise with 1')
    .option(...ADMIN)
    .option(...CONFIG)
    .option(
      '--deep',
      'also ask whether a decision can be made, and name every server of the store and every backend',
    )
    .option(...JSON_OUTPUT)
    .addHelpText('after', TOKEN_HELP + examples(['spillgate health'], ['spillgate health --deep --json']))
    .action((options: HealthOptions) => end(health(host, options)));
  addDoctorCommand(program, host, end);
  program
    .command('bench')
    .description('Send load to a URL and report the responses')
    .argument('<url>', 'the URL to request')
    .option('--connections <number>', 'how many connections, 1 to 1000', '10')
    .option('--duration <time>', 'how long, up to 1h', '10s')
    .option(
      '--rate <number>',
      'requests per second; default: each connection sends its next request after the last response',
    )
    .option('--method <method>', 'the method', 'GET')
    .option('--header <line...>', 'a header, such as "X-Tenant: acme"')
    .option('--body <text>', 'the body')
    .option('--timeout <time>', 'how long a response may take, up to 1m', '10s')
    .option(...JSON_OUTPUT)
    .addHelpText(
      'after',
      examples(
        ['spillgate bench http://127.0.0.1:8080/'],
        ['spillgate bench http://127.0.0.1:8080/ --rate 500 --duration 30s --header "X-Tenant: acme"'],
      ),
    )
    .action((url: string, options: BenchOptions) =>
      end(import('./bench/bench-command.ts').then(({ bench }) => bench(host, url, options))),
    );
}

function addDoctorCommand(program: Command, host: Host, end: End): void {
  program
    .command('doctor')
    .description('Examine everything that a gateway depends on, and say how to fix what is wrong')
    .argument('[file]', 'the configuration file; default: SPILLGATE_CONFIG, or none')
    .option('-c, --config <file>', 'the same as [file]')
    .option(...ADMIN)
    .option('--keys <number>', 'how many keys Redis should have room for', '100000')
    .option(...JSON_OUTPUT)
    .addHelpText(
      'after',
      `${examples(
        ['spillgate doctor spillgate.yaml'],
        ['spillgate doctor spillgate.yaml --keys 1000000 --json', 'for a script'],
      )}

Exit codes: 0 nothing is bad, 1 something is, 2 wrong usage.`,
    )
    .action((file: string | undefined, options: DoctorOptions) =>
      end(
        import('./doctor/doctor-command.ts').then(({ doctor }) =>
          doctor(host, { ...options, config: file ?? options.config }),
        ),
      ),
    );
}

function addExplainCommand(program: Command, host: Host, end: End): void {
  program
    .command('explain')
    .description('Say why a request was admitted or denied, or would be')
    .argument('[id]', 'the id of a recent request, from a log or the body of a 429')
    .option('--method <name>', 'of a hypothetical request')
    .option('--path <path>', 'its path, with its query')
    .option('--header <line...>', 'its headers, such as "X-Tenant: acme"')
    .option('--host <name>', 'its host')
    .option('--client <address>', 'the address that it comes from')
    .option(...ADMIN)
    .option(...CONFIG)
    .option(...JSON_OUTPUT)
    .addHelpText(
      'after',
      TOKEN_HELP +
        examples(
          ['spillgate explain 6f1f2c1e-4f1c-4e0e-9d53-0a6b1f6f0d11'],
          ['spillgate explain --method POST --path /login --header "X-Tenant: acme"'],
        ),
    )
    .action((id: string | undefined, options: ExplainOptions) =>
      end(import('./explain-command.ts').then(({ explain }) => explain(host, id, options))),
    );
}
