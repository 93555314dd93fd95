import type { Command } from 'commander';
import { type End, type Host, examples } from './host.ts';
import { JSON_OUTPUT } from './key-command-line.ts';
import type { SimulateCommandOptions, SuggestLimitsOptions } from './simulate-command.ts';

const LOGS = ['<log...>', 'access logs, plain or packed with gzip or zstd; - is standard input'] as const;
const LOG_FORMAT = [
  '--format <name>',
  'spillgate, combined, caddy, envoy, traefik or alb; default: recognized by the first lines',
] as const;
const LOG_PATTERN = [
  '--pattern <text>',
  'any other format, in the words of nginx: \'$remote_addr [$time_local] "$request" $http_x_tenant\'',
] as const;

/** Commands that read access logs, and need no gateway. */
export function addLogCommands(program: Command, host: Host, end: End): void {
  program
    .command('simulate')
    .description('Replay access logs through a configuration and tell who would have been denied')
    .argument(...LOGS)
    .requiredOption('-c, --config <file>', 'the configuration to try')
    .option('--against <file>', 'the configuration to compare it with, such as the current one')
    .option(...LOG_FORMAT)
    .option(...LOG_PATTERN)
    .option('--fail-if <condition...>', 'exit with 1 if this holds, such as "denied > 0.1%"')
    .option('--instances <n>', 'so many gateways take the requests in turn; default: 1')
    .option('--skew <duration>', 'the clock of the last of them is so far ahead, such as 200ms')
    .option('--outage <from..to...>', 'Redis is away then (UTC), such as 12:00..12:05')
    .option('--leases <mode>', 'on, off or auto: token buckets lease, whatever the file says')
    .option(...JSON_OUTPUT)
    .option('--html <file>', 'also write a report with plots, as one page')
    .addHelpText(
      'after',
      examples(
        ['spillgate simulate --config new.yaml access.log'],
        ['spillgate simulate --config new.yaml --against current.yaml access.log.*.gz'],
        ['spillgate simulate --config new.yaml --instances 4 --outage 12:00..12:05 -- access.log'],
        ['spillgate simulate --config new.yaml --fail-if "denied > 0.1%" -- access.log', 'in a pipeline'],
      ),
    )
    .action((logs: readonly string[], options: SimulateCommandOptions) =>
      end(import('./simulate-command.ts').then(({ simulate }) => simulate(host, logs, options))),
    );
  program
    .command('suggest')
    .description('Propose limits from access logs, with whom each would have denied')
    .argument('<log...>', 'access logs, plain or packed with gzip or zstd')
    .option('--header <name>', 'count by this header; default: by the address of the client')
    .option(...LOG_FORMAT)
    .option(...LOG_PATTERN)
    .option(...JSON_OUTPUT)
    .addHelpText(
      'after',
      examples(['spillgate suggest access.log'], ['spillgate suggest --header X-Tenant access.json']),
    )
    .action((logs: readonly string[], options: SuggestLimitsOptions) =>
      end(import('./simulate-command.ts').then(({ suggest }) => suggest(host, logs, options))),
    );
}
