import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { RecentDecisions } from 'spillgate-gateway';
import type { LiveFeed } from '../live-feed.ts';
import { useObservable } from '../observable.ts';
import { Answered, useAsked } from '../parts/asked.tsx';
import { Card, Empty } from '../parts/card.tsx';
import { DecisionTable } from '../parts/decision-table.tsx';
import type { RecentLine } from '../decisions.ts';

const SHOWN = 200;

/** Who is denied right now, and why. */
export function DenialsPage({ feed }: { readonly feed: LiveFeed }): VNode {
  const denials = useObservable(feed.denials);
  const asked = useAsked<RecentDecisions>('/v1/decisions?outcome=denied&limit=100');
  const [paused, setPaused] = useState<readonly RecentLine[] | undefined>();
  const [wanted, setWanted] = useState('');
  return (
    <>
      <div class="page-head">
        <h1>Denials</h1>
        <p>Requests that were denied, or would be without shadow mode, as they come.</p>
      </div>
      <div class="grid">
        <Answered asked={asked}>
          {({ decisions }) => {
            const all = paused ?? merged(denials, decisions);
            const lines = all.filter((line) => mentions(line, wanted)).slice(0, SHOWN);
            return (
              <Card
                title={`The latest ${lines.length}`}
                aside={
                  <div class="controls">
                    <input
                      type="search"
                      placeholder="Filter by key, path, rule…"
                      aria-label="Filter"
                      value={wanted}
                      onInput={({ currentTarget }) => setWanted(currentTarget.value)}
                    />
                    <button type="button" onClick={() => setPaused(paused === undefined ? all : undefined)}>
                      {paused === undefined ? 'Pause' : 'Resume'}
                    </button>
                  </div>
                }
              >
                {lines.length > 0 ? (
                  <DecisionTable lines={lines} />
                ) : wanted === '' ? (
                  <Empty title="Nobody was denied">Denials appear here the moment they happen.</Empty>
                ) : (
                  <Empty title="None of them mentions that" />
                )}
              </Card>
            );
          }}
        </Answered>
      </div>
    </>
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
