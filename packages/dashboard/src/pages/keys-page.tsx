import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ActiveKeys, KeyState, PolicyList, RecentDecisions } from 'spillgate-gateway';
import { ask } from '../gateway-api.ts';
import { Answered, messageOf, useAsked } from '../parts/asked.tsx';
import { Card, Empty } from '../parts/card.tsx';
import { DecisionTable } from '../parts/decision-table.tsx';
import { Level } from '../parts/level.tsx';
import { OverrideForm } from '../parts/override-form.tsx';
import { amount, moment, span } from '../words.ts';

/** Who is counted: what they have left in every policy, what happened to them lately, and what to do about it. */
export function KeysPage({ words: [key] }: { readonly words: readonly string[] }): VNode {
  return (
    <>
      <div class="page-head">
        <h1>Keys</h1>
        <p>Whom the policies count: what is left for them, and what to do about it.</p>
      </div>
      <Search shown={key ?? ''} />
      {key === undefined || key === '' ? <Seen /> : <OneKey key={key} name={key} />}
    </>
  );
}

function Search({ shown }: { readonly shown: string }): VNode {
  const [text, setText] = useState(shown);
  return (
    <form
      class="search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        location.hash = `#/keys/${encodeURIComponent(text.trim())}`;
      }}
    >
      <input
        type="search"
        aria-label="Key"
        placeholder="An address, a tenant, a user, or a hash as the log shows it"
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
      />
      <button class="primary" type="submit">
        Look up
      </button>
    </form>
  );
}

const SHOWN_KEYS = 20;

/** Who has the most decisions, over all instances that share the store. */
function Seen(): VNode {
  const asked = useAsked<ActiveKeys>(`/v1/keys?limit=${SHOWN_KEYS}`);
  return (
    <Answered asked={asked}>
      {({ busiest, denied, windowSeconds }) => {
        const aside = <span class="muted">in the last {span(windowSeconds * 1000)}</span>;
        return (
          <div class="grid">
            <Card title="Busiest" span={6} aside={aside}>
              <KeyCounts keys={busiest} counted="Decisions" empty="Nobody was counted yet" />
            </Card>
            <Card title="Most denied" span={6} aside={aside}>
              <KeyCounts keys={denied} counted="Denials" empty="Nobody was denied" />
            </Card>
          </div>
        );
      }}
    </Answered>
  );
}

interface KeyCountsProps {
  readonly keys: ActiveKeys['busiest'];
  readonly counted: string;
  readonly empty: string;
}

function KeyCounts({ keys, counted, empty }: KeyCountsProps): VNode {
  if (keys.length === 0) return <Empty title={empty} />;
  return (
    <div class="table-wrap" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">Key</th>
            <th scope="col">Policy</th>
            <th scope="col" class="number">
              Left
            </th>
            <th scope="col" class="number">
              {counted}
            </th>
          </tr>
        </thead>
        <tbody>
          {keys.map(({ key, policy, count, state }) => (
            <tr key={`${policy} ${key}`}>
              <td class="mono wide">
                <a href={`#/keys/${encodeURIComponent(key)}`}>{key}</a>
              </td>
              <td>{policy}</td>
              <td class="number">
                {state === null ? '–' : `${amount(state.remaining)} of ${amount(state.limit)}`}
              </td>
              <td class="number">{amount(count)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function OneKey({ name }: { readonly name: string }): VNode {
  const [turn, setTurn] = useState(0);
  const policies = useAsked<PolicyList>('/v1/policies');
  const recent = useAsked<RecentDecisions>(`/v1/decisions?key=${encodeURIComponent(name)}&limit=50`, turn);
  return (
    <div class="grid">
      <Card title={name}>
        <Answered asked={policies}>
          {({ policies: list }) =>
            list.length === 0 ? (
              <Empty title="There are no policies">Nobody is counted.</Empty>
            ) : (
              <ul class="policies">
                {list.map((policy) => (
                  <StateIn
                    key={policy.name}
                    name={name}
                    policy={policy}
                    turn={turn}
                    changed={() => setTurn(turn + 1)}
                  />
                ))}
              </ul>
            )
          }
        </Answered>
      </Card>
      <Card title="Recent decisions">
        <Answered asked={recent}>
          {({ decisions }) =>
            decisions.length === 0 ? (
              <Empty title="This instance remembers none of this key" />
            ) : (
              <DecisionTable lines={decisions} />
            )
          }
        </Answered>
      </Card>
    </div>
  );
}

interface StateInProps {
  readonly name: string;
  readonly policy: PolicyList['policies'][number];
  readonly turn: number;
  readonly changed: () => void;
}

function StateIn({ name, policy, turn, changed }: StateInProps): VNode {
  const path = `/v1/keys/${encodeURIComponent(policy.name)}/${encodeURIComponent(name)}`;
  const asked = useAsked<KeyState>(path, turn);
  const [editing, setEditing] = useState(false);
  const [said, setSaid] = useState('');
  const change: Change = async (method, place, words, body) => {
    try {
      await ask<object>(method, path + place, body);
      setSaid(words);
      setEditing(false);
      changed();
    } catch (failure) {
      setSaid(messageOf(failure));
    }
  };
  return (
    <li>
      <Answered asked={asked}>
        {(state) => (
          <>
            <StateHead policy={policy} state={state} />
            <Actions
              policy={policy.name}
              state={state}
              said={said}
              edit={() => setEditing(!editing)}
              change={change}
            />
            {editing ? (
              <OverrideForm
                policy={policy}
                given={state.override ?? {}}
                save={(numbers) => void change('PUT', '/override', 'These numbers hold now.', numbers)}
                cancel={() => setEditing(false)}
              />
            ) : undefined}
          </>
        )}
      </Answered>
    </li>
  );
}

/** Asks for a change below the path of the key, and says `words` when it is made. */
type Change = (method: 'PUT' | 'DELETE', place: string, words: string, body?: object) => Promise<void>;

interface ActionsProps {
  readonly policy: string;
  readonly state: KeyState;
  readonly said: string;
  readonly edit: () => void;
  readonly change: Change;
}

function Actions({ policy, state, said, edit, change }: ActionsProps): VNode {
  const overridden = state.override !== null;
  const blocked = state.block !== null;
  return (
    <div class="actions">
      <button class="small" type="button" aria-label={`Override ${policy}`} onClick={edit}>
        {overridden ? 'Change override…' : 'Override…'}
      </button>
      {overridden ? (
        <button
          class="small"
          type="button"
          aria-label={`Remove the override of ${policy}`}
          onClick={() => void change('DELETE', '/override', 'It has the numbers of the configuration again.')}
        >
          Remove override
        </button>
      ) : undefined}
      <button
        class="small danger"
        type="button"
        aria-label={`Forget ${policy}`}
        onClick={() => void change('DELETE', '', 'It is as if it had never been used.')}
      >
        Forget
      </button>
      <button
        class="small danger"
        type="button"
        aria-label={`${blocked ? 'Unblock' : 'Block'} ${policy}`}
        onClick={() =>
          void (blocked
            ? change('DELETE', '/block', 'It is not blocked any more.')
            : change('PUT', '/block', 'Everything is denied to it.', { by: 'dashboard' }))
        }
      >
        {blocked ? 'Unblock' : 'Block'}
      </button>
      <span class="muted" role="status">
        {said}
      </span>
    </div>
  );
}

function StateHead({ policy, state }: Pick<StateInProps, 'policy'> & { readonly state: KeyState }): VNode {
  const { remaining, limit, allowed, retryAfterMs, resetAfterMs, override, setting, block } = state;
  const untouched = remaining === limit;
  return (
    <>
      <div class="policy-head">
        <strong>{policy.name}</strong>
        <span class="muted">{policy.algorithm}</span>
        {override === null ? undefined : (
          <span class="pill">
            override: {inWords(override)}
            {setting?.expiresAt === undefined ? '' : `, until ${moment(Date.parse(setting.expiresAt))}`}
            {setting?.note === undefined ? '' : `: ${setting.note}`}
          </span>
        )}
        {block === null ? undefined : (
          <span class="pill failed">
            blocked{block.expiresAt === undefined ? '' : ` until ${moment(Date.parse(block.expiresAt))}`}
          </span>
        )}
        {allowed ? undefined : <span class="pill denied">used up</span>}
      </div>
      <Level
        label={`${policy.name}: ${remaining} of ${limit} left`}
        value={remaining}
        limit={limit}
        denied={!allowed}
      />
      <div class="policy-foot numbers">
        <span>
          {amount(remaining)} of {amount(limit)} left
        </span>
        <span class="muted">
          {untouched
            ? 'never used, or all of it has come back'
            : `${retryAfterMs === null || allowed ? '' : `next in ${span(retryAfterMs)} · `}full again at ${moment(Date.now() + resetAfterMs)}`}
        </span>
      </div>
    </>
  );
}

function inWords(numbers: object): string {
  return Object.entries(numbers)
    .map(([name, value]) => `${name.replaceAll('_', ' ')} ${String(value)}`)
    .join(', ');
}
