import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { KeyStates, PolicyList } from 'spillgate-gateway';
import { ask, useMayChange } from '../gateway-api.ts';
import { amount, moment, span } from '../words.ts';
import { messageOf } from './asked.tsx';
import { BlockForm } from './block-form.tsx';
import { Level } from './level.tsx';
import { OverrideForm } from './override-form.tsx';

type State = KeyStates['states'][number];
type Policy = PolicyList['policies'][number];

interface KeyStateProps {
  readonly policy: Policy;
  readonly state: State;
  readonly changed: () => void;
}

/** Asks for a change below the path of the key, and says `words` when it is made. */
type Change = (method: 'PUT' | 'DELETE', place: string, words: string, body?: object) => Promise<void>;

/** What a key has left under one policy, and what to do about it. */
export function KeyState({ policy, state, changed }: KeyStateProps): VNode {
  const path = `/v1/keys/${encodeURIComponent(policy.name)}/${encodeURIComponent(state.key)}`;
  const [editing, setEditing] = useState<'override' | 'block' | undefined>();
  const [said, setSaid] = useState('');
  const mayChange = useMayChange();
  const change: Change = async (method, place, words, body) => {
    try {
      await ask<object>(method, path + place, body);
      setSaid(words);
      setEditing(undefined);
      changed();
    } catch (failure) {
      setSaid(messageOf(failure));
    }
  };
  const edit = (what: 'override' | 'block') => (): void => setEditing(editing === what ? undefined : what);
  const cancel = (): void => setEditing(undefined);
  return (
    <li>
      <StateHead policy={policy} state={state} />
      {mayChange ? <Actions policy={policy.name} state={state} edit={edit} change={change} /> : undefined}
      {editing === 'override' ? (
        <OverrideForm
          policy={policy}
          given={state.override ?? {}}
          save={(numbers) => void change('PUT', '/override', 'These numbers hold now.', numbers)}
          cancel={cancel}
        />
      ) : undefined}
      {editing === 'block' ? (
        <BlockForm
          save={(about) => void change('PUT', '/block', 'Everything is denied to it.', about)}
          cancel={cancel}
        />
      ) : undefined}
      <p class="muted said" role="status">
        {said}
      </p>
    </li>
  );
}

interface ActionsProps {
  readonly policy: string;
  readonly state: State;
  readonly edit: (what: 'override' | 'block') => () => void;
  readonly change: Change;
}

function Actions({ policy, state, edit, change }: ActionsProps): VNode {
  const of = <span class="visually-hidden"> of {policy}</span>;
  return (
    <div class="actions">
      <button class="small" type="button" onClick={edit('override')}>
        Change limit{of}
      </button>
      {state.override === null ? undefined : (
        <button
          class="small"
          type="button"
          onClick={() => void change('DELETE', '/override', 'It has the numbers of the configuration again.')}
        >
          Remove override{of}
        </button>
      )}
      <button
        class="small"
        type="button"
        title="As if it had never been used"
        onClick={() => void change('DELETE', '', 'It is as if it had never been used.')}
      >
        Forget use{of}
      </button>
      {state.block === null ? (
        <button class="small danger" type="button" onClick={edit('block')}>
          Block{of}
        </button>
      ) : (
        <button
          class="small"
          type="button"
          onClick={() => void change('DELETE', '/block', 'It is not blocked any more.')}
        >
          Unblock{of}
        </button>
      )}
    </div>
  );
}

function StateHead({ policy, state }: { readonly policy: Policy; readonly state: State }): VNode {
  const { remaining, limit, allowed, retryAfterMs, resetAfterMs, override, setting, block } = state;
  return (
    <>
      <div class="policy-head">
        <strong>{policy.name}</strong>
        <span class="muted">{policy.algorithm}</span>
        {override === null ? undefined : <span class="pill">override: {inWords(override)}</span>}
        {block === null ? undefined : <span class="pill failed">blocked</span>}
        {allowed || block !== null ? undefined : <span class="pill denied">used up</span>}
      </div>
      <About about={setting} />
      <About about={block} />
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
          {remaining === limit
            ? 'never used, or all of it has come back'
            : `${retryAfterMs === null || allowed ? '' : `next in ${span(retryAfterMs)} · `}full again at ${moment(Date.now() + resetAfterMs)}`}
        </span>
      </div>
    </>
  );
}

/** Who changed something about a key, why, and until when. */
function About({ about }: { readonly about: State['setting'] | State['block'] }): VNode | undefined {
  if (about === null) return undefined;
  const { expiresAt, by, note } = about;
  const parts = [
    ...(note === undefined ? [] : [`“${note}”`]),
    expiresAt === undefined ? 'until somebody removes it' : `until ${moment(Date.parse(expiresAt))}`,
    ...(by === undefined ? [] : [`by ${by}`]),
  ];
  return <p class="muted about">{parts.join(' · ')}</p>;
}

function inWords(numbers: object): string {
  return Object.entries(numbers)
    .map(([name, value]) => `${name.replaceAll('_', ' ')} ${String(value)}`)
    .join(', ');
}
