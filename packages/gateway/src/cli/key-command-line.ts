import { Argument, type Command } from 'commander';
import type { AddKeyOptions, KeyFileOptions, RotateKeyOptions } from './api-key-commands.ts';
import type { ListOptions } from './fleet-commands.ts';
import { type End, type Host, examples } from './host.ts';
import type { KeyOptions, OverrideOptions, SettingOptions } from './key-commands.ts';

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
/** Whom a command about keys asks, and how it prints what it is told. */
const WHERE = [ADMIN, CONFIG, REDIS, PREFIX, JSON_OUTPUT] as const;
/** What every setting of a key has. */
const SETTING = [
  ['--expires-in <time>', 'how long it holds, such as 2h; default: until it is removed'],
  ['--by <name>', 'who does it'],
  ['--note <text>', 'why'],
] as const;
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

/** A command about one key. `added`: its own options, which help shows before those that all have. */
function keyCommand(
  program: Command,
  name: string,
  description: string,
  added: readonly (readonly [flags: string, meaning: string])[] = [],
): Command {
  const command = program
    .command(name)
    .description(description)
    .argument(...KEY)
    .usage(KEY_USAGE)
    .configureHelp(KEY_HELP);
  return withOptions(command, [...added, POLICY, ...WHERE]);
}

function withOptions(
  command: Command,
  options: readonly (readonly [flags: string, meaning: string])[],
): Command {
  for (const option of options) command.option(...option);
  return command;
}

function addStateCommands(program: Command, host: Host, end: End): void {
  const load = () => import('./key-commands.ts');
  keyCommand(program, 'peek', 'Show the state of a key; spends nothing', [
    ['--cost <number>', 'what the request would cost'],
  ])
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
  keyCommand(program, 'forget', 'Reset a key, as if it had never been used')
    .addHelpText('after', TOKEN_HELP + examples(['spillgate forget api 203.0.113.7']))
    .action((words: string[], options: KeyOptions) =>
      end(load().then(({ forget }) => forget(host, words, options))),
    );
}

function addBlockCommand(program: Command, host: Host, end: End): void {
  keyCommand(program, 'block', 'Deny everything to a key for a while', [
    ['--remove', 'end the block'],
    ...SETTING,
  ])
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

/** In the order of the algorithms. */
const NUMBERS = [
  ['--average <number>', 'per period (tokenBucket, leakyBucket)'],
  ['--burst <number>', 'at once (tokenBucket)'],
  ['--period <time>', 'such as 1m (tokenBucket, leakyBucket)'],
  ['--quota <number>', 'per window'],
  ['--window <time>', 'such as 1h'],
  ['--offset <time>', 'shift of the window edges (fixedWindow)'],
  ['--max-delay <time>', 'the longest wait (leakyBucket)'],
  ['--every <period>', 'day, week, month, year or ever (calendarQuota)'],
  ['--time-zone <name>', 'whose midnight counts (calendarQuota)'],
  ['--starts-on <number>', 'the first day or month of a period (calendarQuota)'],
  ['--limit <number>', 'in flight at once (concurrency)'],
  ['--hold <time>', 'how long a slot outlives its gateway (concurrency)'],
] as const;

function addOverrideCommand(program: Command, host: Host, end: End): void {
  keyCommand(program, 'override', 'Give a key other numbers', [
    ...NUMBERS,
    ['--remove', "go back to the configuration's numbers"],
    ...SETTING,
  ])
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
    withOptions(program.command(name).description(description), [
      ['--policy <name>', 'only those of this policy'],
      ['--limit <number>', 'how many of each kind'],
      ...WHERE,
    ])
      .addHelpText('after', TOKEN_HELP + examples([`spillgate ${name}`], [example]))
      .action((options: ListOptions) => end(load().then((commands) => commands[name](host, options))));
  };
  list(
    'keys',
    'List the busiest and the most denied keys',
    'spillgate keys --policy api --redis redis://localhost:6379',
  );
  list('overrides', 'List overrides and blocks', 'spillgate overrides --json');
  keyCommand(program, 'key', 'Print a key as it is counted: a secret as its hash, an address as its network')
    .addHelpText('after', TOKEN_HELP + examples(['spillgate key api 2001:db8::1 --config spillgate.yaml']))
    .action((words: string[], options: KeyOptions) =>
      end(load().then(({ countedKey }) => countedKey(host, words, options))),
    );
}

const NAME = ['<name>', 'the name of the key: its requests are counted under it'] as const;
const FILE = [
  '--file <file>',
  'the file of keys; default: identity.api_keys.file of the configuration',
] as const;

/** `spillgate api-keys`: changes the file of keys, and needs no gateway. */
export function addApiKeyCommands(program: Command, host: Host, end: End): void {
  const load = () => import('./api-key-commands.ts');
  const group = program
    .command('api-keys')
    .description('Add, list, revoke and rotate API keys')
    .addHelpText(
      'after',
      examples(
        ['spillgate api-keys add acme --plan pro --config spillgate.yaml'],
        ['spillgate api-keys revoke acme --file keys.yaml', 'within a second it gets a 401'],
        ['spillgate api-keys rotate acme --keep-old 24h --file keys.yaml'],
      ),
    );
  const common = (name: string, description: string): Command =>
    group
      .command(name)
      .description(description)
      .option(...FILE)
      .option('--config <file>', 'the configuration; default: SPILLGATE_CONFIG')
      .option(...JSON_OUTPUT);
  common('add', 'Create a key and print it once')
    .argument(...NAME)
    .option('--plan <name>', 'its plan, of identity.plans')
    .option('--expires <time>', 'such as 90d, or 2027-01-31T00:00:00Z')
    .option('--stdin', 'take the key from standard input, instead of a new one')
    .action((name: string, options: AddKeyOptions) =>
      end(load().then(({ addKey }) => addKey(host, name, options))),
    );
  common('list', 'Show the names, plans and states of all keys').action((options: KeyFileOptions) =>
    end(load().then(({ listKeys }) => listKeys(host, options))),
  );
  common('revoke', 'Refuse a key from now on')
    .argument(...NAME)
    .action((name: string, options: KeyFileOptions) =>
      end(load().then(({ revokeKey }) => revokeKey(host, name, options))),
    );
  common('rotate', 'Give a key a new secret under the same name; one that was revoked is accepted again')
    .argument(...NAME)
    .option('--expires <time>', 'such as 90d, or 2027-01-31T00:00:00Z; default: as before')
    .option('--keep-old <time>', 'how long the old secret is accepted too, such as 24h; default: not at all')
    .action((name: string, options: RotateKeyOptions) =>
      end(load().then(({ rotateKey }) => rotateKey(host, name, options))),
    );
}
