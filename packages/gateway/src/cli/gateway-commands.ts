import { Argument, type Command } from 'commander';
import type { BenchOptions } from './bench/bench-command.ts';
import type { DoctorOptions } from './doctor/doctor-command.ts';
import { examples } from './output.ts';
import { health, type HealthOptions } from './health-command.ts';
import type { End, Host } from './host.ts';
import type { KeyOptions, OverrideOptions } from './key-commands.ts';

const ADMIN = [
  '--admin <url>',
  'the address of the admin server, such as localhost:9090; default: SPILLGATE_ADMIN_ADDRESS, the configuration, or http://127.0.0.1:9090',
] as const;
const CONFIG = [
  '--config <file>',
  'the configuration file of the gateway, for the address and the token; default: SPILLGATE_CONFIG',
] as const;
const POLICY = ['--policy <name>', 'the same as [policy]'] as const;
const JSON_OUTPUT = ['--json', 'as JSON'] as const;
/** One word is the key, two are the policy and the key: help shows them apart, see `KEY_HELP`. */
const KEY = ['<key...>', 'the key, or the policy and the key'] as const;
const KEY_USAGE = '[options] [policy] <key>';
const KEY_HELP = {
  visibleArguments: () => [
    new Argument('[policy]', 'the policy; not needed if there is only one'),
    new Argument('<key>', 'what the rule counts by, such as an address; quote it if it contains spaces'),
  ],
};

const TOKEN_HELP = `
The admin token is read from SPILLGATE_ADMIN_TOKEN, from the file that SPILLGATE_ADMIN_TOKEN_FILE names,
or from the configuration.
`;

/** Commands about a gateway that runs, or is going to. */
export function addGatewayCommands(program: Command, host: Host, end: End): void {
  addKeyCommands(program, host, end);
  addOverrideCommand(program, host, end);
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
    .description('Examine everything that a gateway depends on, and say how to mend it')
    .argument('[file]', 'the configuration file; default: SPILLGATE_CONFIG, or none')
    .option('--config <file>', 'the same as [file]')
    .option(...ADMIN)
    .option('--keys <number>', 'how many keys Redis shall have room for', '100000')
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

function addKeyCommands(program: Command, host: Host, end: End): void {
  const load = () => import('./key-commands.ts');
  program
    .command('peek')
    .description('Show the state of a key; spends nothing')
    .argument(...KEY)
    .usage(KEY_USAGE)
    .configureHelp(KEY_HELP)
    .option(...POLICY)
    .option('--cost <number>', 'what the request would cost')
    .option(...ADMIN)
    .option(...CONFIG)
    .option(...JSON_OUTPUT)
    .addHelpText(
      'after',
      TOKEN_HELP +
        examples(
          ['spillgate peek 203.0.113.7', 'if there is only one policy'],
          ['spillgate peek api 203.0.113.7', 'under the policy api'],
          ['spillgate peek api acme --cost 5', 'would a request of this cost be admitted?'],
        ),
    )
    .action((words: string[], options: KeyOptions & { readonly cost?: string }) =>
      end(load().then(({ peek }) => peek(host, words, options))),
    );
  program
    .command('forget')
    .description('Reset a key, as if it had never been used')
    .argument(...KEY)
    .usage(KEY_USAGE)
    .configureHelp(KEY_HELP)
    .option(...POLICY)
    .option(...ADMIN)
    .option(...CONFIG)
    .option(...JSON_OUTPUT)
    .addHelpText('after', TOKEN_HELP + examples(['spillgate forget api 203.0.113.7']))
    .action((words: string[], options: KeyOptions) =>
      end(load().then(({ forget }) => forget(host, words, options))),
    );
}

function addOverrideCommand(program: Command, host: Host, end: End): void {
  program
    .command('override')
    .description('Give a key other numbers until the gateway stops')
    .argument(...KEY)
    .usage(KEY_USAGE)
    .configureHelp(KEY_HELP)
    .option('--average <number>', 'per period (tokenBucket, leakyBucket)')
    .option('--burst <number>', 'at once (tokenBucket)')
    .option('--period <time>', 'such as 1m (tokenBucket, leakyBucket)')
    .option('--quota <number>', 'per window')
    .option('--window <time>', 'such as 1h')
    .option('--offset <time>', 'shift of the window edges (fixedWindow)')
    .option('--max-delay <time>', 'the longest wait (leakyBucket)')
    .option('--remove', "go back to the configuration's numbers")
    .option(...POLICY)
    .option(...ADMIN)
    .option(...CONFIG)
    .option(...JSON_OUTPUT)
    .addHelpText(
      'after',
      TOKEN_HELP +
        examples(
          ['spillgate override api acme --average 1000 --burst 200'],
          ['spillgate override api acme --remove'],
        ),
    )
    .action((words: string[], options: OverrideOptions) =>
      end(import('./key-commands.ts').then(({ override }) => override(host, words, options))),
    );
}
