import { Argument, type Command } from 'commander';
import type { End, Host } from './host.ts';
import type { ListOptions } from './fleet-commands.ts';
import type { KeyOptions, OverrideOptions, SettingOptions } from './key-commands.ts';
import { examples } from './output.ts';

export const ADMIN = [
  '--admin <url>',
  'the address of the admin server, such as localhost:9090; default: SPILLGATE_ADMIN_ADDRESS, the configuration, or http://127.0.0.1:9090',
] as const;
export const CONFIG = [
  '-c, --config <file>',
  'the configuration file of the gateway, for the address and the token; default: SPILLGATE_CONFIG',
] as const;
const REDIS = [
  '--redis <url>',
  'ask this Redis instead of a gateway, such as redis://localhost:6379; policies come from --config, or from instances that run',
] as const;
const PREFIX = [
  '--prefix <text>',
  'with --redis: what the names of keys start with; default: spillgate:',
] as const;
const POLICY = ['--policy <name>', 'the same as [policy]'] as const;
export const JSON_OUTPUT = ['--json', 'as JSON'] as const;
const EXPIRES_IN = [
  '--expires-in <time>',
  'how long it holds, such as 2h; default: until it is removed',
] as const;
const BY = ['--by <name>', 'who does it'] as const;
const NOTE = ['--note <text>', 'why'] as const;
/** One word is the key, two are the policy and the key: help shows them apart, see `KEY_HELP`. */
const KEY = ['<key...>', 'the key, or the policy and the key'] as const;
const KEY_USAGE = '[options] [policy] <key>';
const KEY_HELP = {
  visibleArguments: () => [
    new Argument('[policy]', 'the policy; not needed if there is only one'),
    new Argument('<key>', 'what the rule counts by, such as an address; quote it if it contains spaces'),
  ],
};

export const TOKEN_HELP = `
The admin token is read from SPILLGATE_ADMIN_TOKEN, from the file that SPILLGATE_ADMIN_TOKEN_FILE names,
or from the configuration.
`;

/** Commands about single keys. */
export function addKeyCommands(program: Command, host: Host, end: End): void {
  addStateCommands(program, host, end);
  addOverrideCommand(program, host, end);
  addBlockCommand(program, host, end);
  addListCommands(program, host, end);
}

function addStateCommands(program: Command, host: Host, end: End): void {
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
    .option(...REDIS)
    .option(...PREFIX)
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
    .option(...REDIS)
    .option(...PREFIX)
    .option(...JSON_OUTPUT)
    .addHelpText('after', TOKEN_HELP + examples(['spillgate forget api 203.0.113.7']))
    .action((words: string[], options: KeyOptions) =>
      end(load().then(({ forget }) => forget(host, words, options))),
    );
}

function addBlockCommand(program: Command, host: Host, end: End): void {
  program
    .command('block')
    .description('Deny everything to a key for a while')
    .argument(...KEY)
    .usage(KEY_USAGE)
    .configureHelp(KEY_HELP)
    .option('--remove', 'end the block')
    .option(...EXPIRES_IN)
    .option(...BY)
    .option(...NOTE)
    .option(...POLICY)
    .option(...ADMIN)
    .option(...CONFIG)
    .option(...REDIS)
    .option(...PREFIX)
    .option(...JSON_OUTPUT)
    .addHelpText(
      'after',
      TOKEN_HELP +
        examples(
          ['spillgate block api 203.0.113.7 --expires-in 15m --note abuse'],
          ['spillgate block api 203.0.113.7 --remove'],
        ),
    )
    .action((words: string[], options: SettingOptions) =>
      end(import('./key-commands.ts').then(({ block }) => block(host, words, options))),
    );
}

function addOverrideCommand(program: Command, host: Host, end: End): void {
  program
    .command('override')
    .description('Give a key other numbers')
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
    .option('--every <period>', 'day, week, month, year or ever (calendarQuota)')
    .option('--time-zone <name>', 'whose midnight counts (calendarQuota)')
    .option('--starts-on <number>', 'the first day or month of a period (calendarQuota)')
    .option('--limit <number>', 'in flight at once (concurrency)')
    .option('--hold <time>', 'how long a slot outlives its gateway (concurrency)')
    .option('--remove', "go back to the configuration's numbers")
    .option(...EXPIRES_IN)
    .option(...BY)
    .option(...NOTE)
    .option(...POLICY)
    .option(...ADMIN)
    .option(...CONFIG)
    .option(...REDIS)
    .option(...PREFIX)
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

function addListCommands(program: Command, host: Host, end: End): void {
  const load = () => import('./fleet-commands.ts');
  const list = (name: 'keys' | 'overrides', description: string, example: string): void => {
    program
      .command(name)
      .description(description)
      .option('--policy <name>', 'only those of this policy')
      .option('--limit <number>', 'how many of each kind')
      .option(...ADMIN)
      .option(...CONFIG)
      .option(...REDIS)
      .option(...PREFIX)
      .option(...JSON_OUTPUT)
      .addHelpText('after', TOKEN_HELP + examples([`spillgate ${name}`], [example]))
      .action((options: ListOptions) => end(load().then((commands) => commands[name](host, options))));
  };
  list(
    'keys',
    'List the busiest keys and those that are denied most',
    'spillgate keys --policy api --redis redis://localhost:6379',
  );
  list('overrides', 'List overrides and blocks', 'spillgate overrides --json');
  program
    .command('key')
    .description('Print a key as it is counted: a secret as its hash, an address as its network')
    .argument(...KEY)
    .usage(KEY_USAGE)
    .configureHelp(KEY_HELP)
    .option(...POLICY)
    .option(...ADMIN)
    .option(...CONFIG)
    .option(...REDIS)
    .option(...PREFIX)
    .option(...JSON_OUTPUT)
    .addHelpText('after', TOKEN_HELP + examples(['spillgate key api 2001:db8::1 --config spillgate.yaml']))
    .action((words: string[], options: KeyOptions) =>
      end(load().then(({ countedKey }) => countedKey(host, words, options))),
    );
}
