import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { RecentDecisions } from 'spillgate-gateway';
import type { LiveFeed } from '../live-feed.ts';
import { useObservable } from '../observable.ts';
import { Answered, useAsked } from '../parts/asked.tsx';
import { Card, Empty } from '../parts/card.tsx';
import { DecisionTable } from '../parts/decision-table.tsx';
import type { RecentLine } from '../decisions.ts';

/** So many at first, and so many more each time somebody asks for them. */
const STEP = 50;

/** Who is denied right now, and why. */
export function DenialsPage({ feed }: { readonly feed: LiveFeed }): VNode {
  const denials = useObservable(feed.denials);
  const asked = useAsked<RecentDecisions>('/v1/decisions?outcome=denied&limit=200');
  return (
    <>
      <div class="page-head">
        <h1>Denials</h1>
        <p>Requests that were denied, or would be without shadow mode, as they come.</p>
      </div>
      <div class="grid">
        <Answered asked={asked}>{({ decisions }) => <Denials all={merged(denials, decisions)} />}</Answered>
      </div>
    </>
  );
}

function Denials({ all }: { readonly all: readonly RecentLine[] }): VNode {
  const [held, setHeld] = useState<readonly RecentLine[] | undefined>();
  const [pointed, setPointed] = useState<readonly RecentLine[] | undefined>();
  const [wanted, setWanted] = useState('');
  const [most, setMost] = useState(STEP);
  const still = held ?? pointed;
  const found = (still ?? all).filter((line) => mentions(line, wanted));
  const since = still === undefined ? 0 : all.filter(({ at }) => at > (still[0]?.at ?? '')).length;
  return (
    <Card
      title={found.length > most ? `The latest ${most}` : 'The latest'}
      aside={
        <div class="controls">
          <span class="muted numbers" aria-live="off">
            {still === undefined ? '' : `${since} new since it is held`}
          </span>
          <input
            type="search"
            placeholder="Filter by key, path, rule…"
            aria-label="Filter"
            value={wanted}
            onInput={({ currentTarget }) => setWanted(currentTarget.value)}
          />
          <button type="button" onClick={() => setHeld(held === undefined ? all : undefined)}>
            {held === undefined ? 'Pause' : 'Resume'}
          </button>
        </div>
      }
    >
      {found.length > 0 ? (
        // What somebody points at must not move away under the pointer.
        <div onMouseEnter={() => setPointed(all)} onMouseLeave={() => setPointed(undefined)}>
          <DecisionTable lines={found.slice(0, most)} />
        </div>
      ) : wanted === '' ? (
        <Empty title="Nobody was denied">Denials appear here the moment they happen.</Empty>
      ) : (
        <Empty title="None of them mentions that" />
      )}
      {found.length > most ? (
        <div class="actions">
          <button type="button" onClick={() => setMost(most + STEP)}>
            Show more
          </button>
          <span class="muted">{found.length - most} earlier ones</span>
        </div>
      ) : undefined}
    </Card>
  );
}

/** Those that came while the page is open, then those of before; each once. */
function merged(live: readonly RecentLine[], before: readonly RecentLine[]): readonly RecentLine[] {
  const byId = new Map([...before, ...live].map((line) => [`${line.id} ${line.number}`, line]));
  return [...byId.values()].toSorted((one, other) => Date.parse(other.at) - Date.parse(one.at));
}

function mentions(
  { id, method, path, keys, rule = '', policy = '', client = '' }: RecentLine,
  text: string,
): boolean {
  const lower = text.toLowerCase();
  return [id, `${method} ${path}`, rule, policy, client, ...keys].some((each) =>
    each.toLowerCase().includes(lower),
  );
}
