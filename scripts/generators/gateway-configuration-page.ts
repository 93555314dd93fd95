import { CONFIG_FILE_VARIABLE } from '#gateway/config/environment.js';
import { configSchema } from '#gateway/config/config.js';
import { shapeOf, SETTINGS, type Setting } from '#gateway/config/settings.js';

/** The configuration reference as Markdown. */
export function referencePage(): string {
  const sections = Object.entries(configSchema.shape).map(([name, schema]) => {
    const rows = SETTINGS.filter(({ path }) => path === name || path.startsWith(`${name}.`)).map((setting) =>
      row(setting, name),
    );
    return [
      `## ${name}`,
      '',
      shapeOf(schema).description ?? '',
      '',
      '| setting | value | default | variable | meaning |',
      '|---|---|---|---|---|',
      ...rows,
      '',
    ].join('\n');
  });
  return [...INTRODUCTION, sections.join('\n')].join('\n');
}

const INTRODUCTION: readonly string[] = [
  '<!-- Generated from packages/gateway/src/config by `npm run generate`. Edit the schema there instead. -->',
  '',
  '# Gateway configuration',
  '',
  'One YAML file configures the gateway. Every setting is optional unless marked as required. `spillgate init` writes a file to start',
  'from, `spillgate check FILE` reports every problem with its line and column, `spillgate config` prints every setting and where its',
  'value came from, and `spillgate schema` prints a JSON Schema for editors.',
  '',
  'An environment **variable** overrides the file, and the file overrides the default. A variable takes text as it is, a list of texts separated by commas,',
  'and any other list or map as JSON. An empty variable counts as unset. A secret may come from a file: append `_FILE` to its variable.',
  `\`${CONFIG_FILE_VARIABLE}\` names the configuration file if the command line does not.`,
  '',
  'Variables of other rate limiters are read where neither the file nor a variable above says anything: `EDGEQUOTA_...` as if it began with `SPILLGATE_`; `REDIS_ADDR`, `REDIS_ADDRS` (shards), `REDIS_URL`, `REDIS_DB`, `REDIS_USERNAME`, `REDIS_PASSWORD` and',
  '`DISTRIBUTED_RATE_LIMIT_PREFIX` if there is a `redis` section without an address, or if `DISTRIBUTED_RATE_LIMIT_ENABLED` is `true`; `DISTRIBUTED_RATE_LIMIT_FALLBACK` as `rate_limit.failure_policy`. One that is set and not used is a warning.',
  '',
  '| value | how it is written |',
  '|---|---|',
  '| duration | whole numbers with units d, h, m, s, ms, largest first: `250ms`, `30s`, `1h30m`; `0` |',
  '| size | bytes, or `64KiB`, `10MiB`, `1GiB` |',
  '| address | a port, or an address and a port: `:8080`, `127.0.0.1:9090`, `[::1]:9090` |',
  '| key | `clientIP`, `global`, or a section with a `type`, as under `rate_limit.key_strategy` |',
  '| secret | a text that is never shown |',
  '| file | the path of a file |',
  '',
  'Names in a path: `[]` is each entry of a list, `<name>` a name of your choice.',
  '',
];

function row(setting: Setting, section: string): string {
  const { path, kind, env, secret, description } = setting;
  const variable = env === undefined ? '' : `\`${env}\`${secret ? `, \`${env}_FILE\`` : ''}`;
  const below = path === section ? path : path.slice(section.length + 1);
  const cells = [`\`${below}\``, kind, fallbackOf(setting), variable, description];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

function fallbackOf({ fallback, required }: Setting): string {
  if (fallback === undefined) return required ? 'required' : '';
  return `\`${typeof fallback === 'string' ? fallback : JSON.stringify(fallback)}\``;
}
