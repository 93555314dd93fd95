import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { ActiveKeys, KeyStates, PolicyList, RecentDecisions } from 'spillgate-gateway';
import { useMayChange } from '../gateway-api.ts';
import { useTurn, type LiveFeed } from '../live-feed.ts';
import { Answered, useAsked, type Asked } from '../parts/asked.tsx';
import { Card, Empty } from '../parts/card.tsx';
import { DecisionTable } from '../parts/decision-table.tsx';
import { KeyState } from '../parts/key-state.tsx';
import { amount, span } from '../words.ts';

interface KeysPageProps {
  readonly feed: LiveFeed;
  readonly words: readonly string[];
}

/** Who is counted: what they have left in every policy, what happened to them lately, and what to do about it. */
export function KeysPage({ feed, words: [key = ''] }: KeysPageProps): VNode {
  const [text, setText] = useState(key);
  useEffect(() => setText(key), [key]);
  return (
    <>
      <div class="page-head">
        <h1>Keys</h1>
        <p>Whom the policies count: what is left for them, and what to do about it.</p>
      </div>
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
          placeholder="An address, a tenant, a user; a secret plain, or its hash as the log shows it"
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
        <button class="primary" type="submit" disabled={text.trim() === ''}>
          Look up
        </button>
      </form>
      {key === '' ? <Seen feed={feed} contains={text.trim()} /> : <OneKey key={key} name={key} feed={feed} />}
    </>
  );
}

const SHOWN_KEYS = 20;
/** Somebody who types is not finished yet. */
const TYPING_MS = 200;

/** Who has the most decisions, over all instances that share the store. */
function Seen({ feed, contains }: { readonly feed: LiveFeed; readonly contains: string }): VNode {
  const turn = useTurn(feed);
  const wanted = useSettled(contains, TYPING_MS);
  const query = wanted === '' ? '' : `&contains=${encodeURIComponent(wanted)}`;
  const asked = useAsked<ActiveKeys>(`/v1/keys?limit=${SHOWN_KEYS}${query}`, turn);
  return (
    <Answered asked={asked}>
      {({ busiest, denied, windowSeconds }) => {
        const aside = <span class="muted">in the last {span(windowSeconds * 1000)}</span>;
        const none = (otherwise: string): string =>
          wanted === '' ? otherwise : 'No such key among them: Look up finds every key.';
        return (
          <div class="grid">
            <Card title="Most denied" span={6} aside={aside}>
              <KeyCounts keys={denied} counted="Denials" empty={none('Nobody was denied')} />
            </Card>
            <Card title="Busiest" span={6} aside={aside}>
              <KeyCounts keys={busiest} counted="Decisions" empty={none('Nobody was counted yet')} />
            </Card>
          </div>
        );
      }}
    </Answered>
  );
}

/** A value that has not changed for a while. */
function useSettled(value: string, ms: number): string {
  const [settled, settle] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => settle(value), ms);
    return () => window.clearTimeout(timer);
  }, [value, ms]);
  return settled;
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

function OneKey({ name, feed }: { readonly name: string; readonly feed: LiveFeed }): VNode {
  const [changes, setChanges] = useState(0);
  const turn = useTurn(feed) + changes;
  const policies = useAsked<PolicyList>('/v1/policies');
  const states = useAsked<KeyStates>(`/v1/states/${encodeURIComponent(name)}`, turn);
  const recent = useAsked<RecentDecisions>(`/v1/decisions?key=${encodeURIComponent(name)}&limit=20`, turn);
  const mayChange = useMayChange();
  return (
    <>
      <p class="back">
        <a href="#/keys">All keys</a>
      </p>
      <div class="grid">
        <Card
          title={name}
          aside={
            mayChange ? undefined : (
              <span class="muted">You are signed in with the read-only token, which changes nothing.</span>
            )
          }
        >
          <Answered asked={bothOf(policies, states)}>
            {([{ policies: list }, { states: all, more }]) => (
              <States policies={list} states={all} more={more} changed={() => setChanges(changes + 1)} />
            )}
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
    </>
  );
}

function bothOf<One, Other>(one: Asked<One>, other: Asked<Other>): Asked<readonly [One, Other]> {
  if (one.state !== 'answered') return one;
  if (other.state !== 'answered') return other;
  return { state: 'answered', answer: [one.answer, other.answer] };
}

interface StatesProps {
  readonly policies: PolicyList['policies'];
  readonly states: KeyStates['states'];
  readonly more: number;
  readonly changed: () => void;
}

/** Those with something to tell; the rest can be unfolded. */
function States({ policies, states, more, changed }: StatesProps): VNode {
  // Once shown, a policy stays where it is: what fills up again must not move away under the pointer.
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const known = new Map(policies.map((policy) => [policy.name, policy]));
  const isTold = (state: StatesProps['states'][number]): boolean =>
    open.has(state.policy) ||
    state.remaining < state.limit ||
    state.override !== null ||
    state.block !== null;
  const told = states.filter(isTold).map(({ policy }) => policy);
  useEffect(() => {
    if (told.some((name) => !open.has(name))) setOpen(new Set([...open, ...told]));
  });
  const drawn = (list: StatesProps['states']): VNode[] =>
    list.flatMap((state) => {
      const policy = known.get(state.policy);
      return policy === undefined
        ? []
        : [<KeyState key={state.policy} policy={policy} state={state} changed={changed} />];
    });
  if (states.length === 0) return <Empty title="There are no policies">Nobody is counted.</Empty>;
  const inOrder = policies.flatMap(({ name }) => states.filter(({ policy }) => policy === name));
  const used = inOrder.filter(isTold);
  const unused = inOrder.filter((state) => !isTold(state));
  return (
    <>
      {used.length === 0 ? (
        <p class="muted">Nothing is used up: it was not seen lately, or all of it has come back.</p>
      ) : (
        <ul class="policies">{drawn(used)}</ul>
      )}
      {unused.length === 0 ? undefined : (
        <details class="unused">
          <summary>
            {unused.length} {unused.length === 1 ? 'policy' : 'policies'} with everything left
          </summary>
          <ul class="policies">{drawn(unused)}</ul>
        </details>
      )}
      {more === 0 ? undefined : <p class="muted">and {more} more policies</p>}
    </>
  );
}
