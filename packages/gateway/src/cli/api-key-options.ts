import type { Command } from 'commander';
import type { AddKeyOptions, KeyFileOptions, RotateKeyOptions } from './api-key-commands.ts';
import type { End, Host } from './host.ts';
import { examples } from './output.ts';

const NAME = ['<name>', 'the name of the key: its requests are counted under it'] as const;
const FILE = [
  '--file <file>',
  'the file of keys; default: identity.api_keys.file of the configuration',
] as const;
const CONFIG = ['--config <file>', 'the configuration; default: SPILLGATE_CONFIG'] as const;
const JSON_OUTPUT = ['--json', 'as JSON'] as const;

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
      .option(...CONFIG)
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
