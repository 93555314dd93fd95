import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ConfigShown } from 'spillgate-gateway';
import { ask } from '../gateway-api.ts';
import { Answered, messageOf, useAsked } from '../parts/asked.tsx';
import { Card, Empty } from '../parts/card.tsx';
import { moment } from '../words.ts';

type Setting = ConfigShown['settings'][number];

/** What is in use, and where each value came from. */
export function ConfigurationPage(): VNode {
  const [turn, setTurn] = useState(0);
  const asked = useAsked<ConfigShown>('/v1/config', turn);
  return (
    <>
      <div class="page-head">
        <h1>Configuration</h1>
        <p>What is in use, and where each value came from. Secrets are masked.</p>
      </div>
      <div class="grid">
        <Answered asked={asked}>
          {(config) => (
            <>
              <InUse config={config} changed={() => setTurn(turn + 1)} />
              <Settings settings={config.settings} />
            </>
          )}
        </Answered>
      </div>
    </>
  );
}

const OUTCOMES = { applied: 'taken into use', unchanged: 'nothing had changed', refused: 'refused' } as const;

function InUse({ config, changed }: { readonly config: ConfigShown; readonly changed: () => void }): VNode {
  const [said, setSaid] = useState('');
  const { lastReload } = config;
  const reload = (): void => {
    ask<object>('POST', '/v1/reload')
      .then(
        () => setSaid('Read again.'),
        (failure: unknown) => setSaid(messageOf(failure)),
      )
      .finally(changed);
  };
  return (
    <Card
      title={`Generation ${config.generation}`}
      aside={
        <button type="button" onClick={reload}>
          Reload
        </button>
      }
    >
      <dl class="facts">
        <dt>In use since</dt>
        <dd>{moment(Date.parse(config.loadedAt))}</dd>
        <dt>Last reload</dt>
        <dd>
          {lastReload === undefined
            ? 'none since the start'
            : `${OUTCOMES[lastReload.outcome]}, ${moment(Date.parse(lastReload.at))}`}
        </dd>
      </dl>
      {lastReload === undefined || lastReload.problems.length === 0 ? undefined : (
        <ul class="advice">
          {lastReload.problems.map(({ path, message, suggestion }) => (
            <li key={`${path} ${message}`}>
              {message}. {suggestion}
            </li>
          ))}
        </ul>
      )}
      <p class="muted" role="status">
        {said}
      </p>
    </Card>
  );
}

function Settings({ settings }: { readonly settings: readonly Setting[] }): VNode {
  const [wanted, setWanted] = useState('');
  const [all, setAll] = useState(false);
  const shown = settings
    .filter(({ origin }) => all || origin.from !== 'default')
    .filter(({ path, value }) =>
      `${path} ${JSON.stringify(value)}`.toLowerCase().includes(wanted.toLowerCase()),
    );
  return (
    <Card
      title="Settings"
      aside={
        <div class="controls">
          <label class="check">
            <input
              type="checkbox"
              checked={all}
              onChange={({ currentTarget }) => setAll(currentTarget.checked)}
            />
            with defaults
          </label>
          <input
            type="search"
            aria-label="Filter settings"
            placeholder="Filter…"
            value={wanted}
            onInput={({ currentTarget }) => setWanted(currentTarget.value)}
          />
        </div>
      }
    >
      {shown.length === 0 ? (
        <Empty title="No such setting" />
      ) : (
        <div class="table-wrap" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">Setting</th>
                <th scope="col">Value</th>
                <th scope="col">From</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((setting) => (
                <tr key={setting.path}>
                  <td class="mono">{setting.path}</td>
                  <td class="mono wide">{valueText(setting.value)}</td>
                  <td class="muted nowrap">{originText(setting.origin)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

function valueText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function originText(origin: Setting['origin']): string {
  if (origin.from === 'file') return `${origin.file.split('/').at(-1) ?? ''}:${origin.line}`;
  return origin.from === 'env' ? origin.name : 'default';
}
