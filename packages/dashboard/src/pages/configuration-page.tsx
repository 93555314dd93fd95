import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ConfigShown } from 'spillgate-gateway';
import { ask, useMayChange } from '../gateway-api.ts';
import { useTurn, type LiveFeed } from '../live-feed.ts';
import { Answered, messageOf, useAsked } from '../parts/asked.tsx';
import { Card, Empty } from '../parts/card.tsx';
import { Differences, originText, Problems, valueText } from '../parts/config-changes.tsx';
import { ConfigCheck } from '../parts/config-check.tsx';
import { moment } from '../words.ts';

type Setting = ConfigShown['settings'][number];

/** What is in use, what was, and what would be. */
export function ConfigurationPage({ feed }: { readonly feed: LiveFeed }): VNode {
  const [changes, setChanges] = useState(0);
  const asked = useAsked<ConfigShown>('/v1/config', useTurn(feed) + changes);
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
              <InUse config={config} changed={() => setChanges(changes + 1)} />
              <ConfigCheck />
              <Settings settings={config.settings} />
            </>
          )}
        </Answered>
      </div>
    </>
  );
}

const OUTCOMES = {
  applied: { words: 'taken into use', pill: 'allowed' },
  unchanged: { words: 'nothing had changed', pill: '' },
  refused: { words: 'refused', pill: 'failed' },
} as const;

function InUse({ config, changed }: { readonly config: ConfigShown; readonly changed: () => void }): VNode {
  const [said, setSaid] = useState('');
  const mayChange = useMayChange();
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
      title="In use"
      aside={
        mayChange ? (
          <button type="button" onClick={reload}>
            Reload
          </button>
        ) : (
          <span class="muted">You are signed in with the read-only token, which changes nothing.</span>
        )
      }
    >
      <p>
        Since <strong>{moment(Date.parse(config.loadedAt))}</strong>
        <span class="muted">
          {config.generation === 1
            ? ', as the gateway started with it.'
            : `, the ${ordinal(config.generation)} since the gateway started.`}
        </span>
      </p>
      <p class="muted" role="status">
        {said}
      </p>
      <Reloads reloads={config.reloads} />
    </Card>
  );
}

function ordinal(count: number): string {
  const ending =
    count % 100 >= 11 && count % 100 <= 13 ? 'th' : (['th', 'st', 'nd', 'rd'][count % 10] ?? 'th');
  return `${count}${ending}`;
}

function Reloads({ reloads }: { readonly reloads: ConfigShown['reloads'] }): VNode {
  if (reloads.length === 0) return <p class="muted">There was no reload since the start.</p>;
  // The latest that did something; one that changed nothing has nothing to show.
  const told = reloads.find(({ outcome }) => outcome !== 'unchanged');
  return (
    <>
      <h3>Reloads</h3>
      <ol class="reloads">
        {reloads.map((reload) => {
          const { words, pill } = OUTCOMES[reload.outcome];
          const total = reload.differences?.total ?? 0;
          return (
            <li key={reload.at}>
              <details open={reload === told}>
                <summary>
                  <span class="numbers">{moment(Date.parse(reload.at))}</span>{' '}
                  <span class={`pill ${pill}`}>{words}</span>{' '}
                  <span class="muted">
                    {total === 0 ? '' : `${total} ${total === 1 ? 'change' : 'changes'}`}
                  </span>
                </summary>
                <Problems problems={reload.problems} />
                {reload.differences === undefined || total === 0 ? undefined : (
                  <Differences differences={reload.differences} />
                )}
              </details>
            </li>
          );
        })}
      </ol>
    </>
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
      {shown.length === 0 ? <Empty title="No such setting" /> : <SettingTable settings={shown} />}
    </Card>
  );
}

function SettingTable({ settings }: { readonly settings: readonly Setting[] }): VNode {
  return (
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
          {settings.map((setting) => (
            <tr key={setting.path}>
              <td class="mono wide">{setting.path}</td>
              <td class="mono wide">{valueText(setting.value)}</td>
              <td class="muted nowrap">{originText(setting.origin)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
