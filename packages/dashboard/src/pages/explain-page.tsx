import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Explanation } from 'spillgate-gateway';
import { ask } from '../gateway-api.ts';
import { Answered, messageOf, useAsked, type Asked } from '../parts/asked.tsx';
import { Card } from '../parts/card.tsx';
import { Story } from '../parts/story.tsx';

/** The story of a request: one that happened, or one that somebody makes up. */
export function ExplainPage({ words: [id] }: { readonly words: readonly string[] }): VNode {
  return (
    <>
      <div class="page-head">
        <h1>Explain</h1>
        <p>Why a request was admitted or not, or what would happen to one.</p>
      </div>
      {id === undefined || id === '' ? <Questions /> : <Kept id={id} />}
    </>
  );
}

function Kept({ id }: { readonly id: string }): VNode {
  const asked = useAsked<Explanation>(`/v1/explain/${encodeURIComponent(id)}`);
  return (
    <>
      <p class="back">
        <a href="#/explain">Explain another request</a>
      </p>
      <Answered asked={asked}>{(story) => <Story story={story} />}</Answered>
    </>
  );
}

interface Made {
  readonly method: string;
  readonly path: string;
  readonly host: string;
  readonly client: string;
  readonly headers: string;
}

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'];

function Questions(): VNode {
  const [id, setId] = useState('');
  const [made, setMade] = useState<Made>({ method: 'GET', path: '/', host: '', client: '', headers: '' });
  const [asked, setAsked] = useState<Asked<Explanation> | undefined>();
  const change = (changed: Partial<Made>): void => setMade({ ...made, ...changed });
  const explain = (event: Event): void => {
    event.preventDefault();
    setAsked({ state: 'asking' });
    ask<Explanation>('POST', '/v1/explain', bodyOf(made)).then(
      (answer) => setAsked({ state: 'answered', answer }),
      (failure: unknown) => setAsked({ state: 'failed', why: messageOf(failure) }),
    );
  };
  return (
    <>
      <div class="grid">
        <Card title="A request that happened" span={4}>
          <form
            class="form"
            onSubmit={(event) => {
              event.preventDefault();
              if (id.trim() !== '') location.hash = `#/explain/${encodeURIComponent(id.trim())}`;
            }}
          >
            <label>
              Id
              <input
                value={id}
                onInput={({ currentTarget }) => setId(currentTarget.value)}
                autocomplete="off"
              />
            </label>
            <p class="muted">The log has it, and so do the header X-Request-Id and the body of a 429.</p>
            <button type="submit">Look it up</button>
          </form>
        </Card>
        <Card title="A request that you make up" span={8}>
          <form class="form" onSubmit={explain}>
            <MadeUpFields made={made} change={change} />
            <div>
              <button class="primary" type="submit">
                Explain
              </button>{' '}
              <span class="muted">Nothing is sent or counted.</span>
            </div>
          </form>
        </Card>
      </div>
      {asked === undefined ? undefined : (
        <div class="below" aria-live="polite">
          <Answered asked={asked}>{(story) => <Story story={story} />}</Answered>
        </div>
      )}
    </>
  );
}

interface FieldsProps {
  readonly made: Made;
  readonly change: (changed: Partial<Made>) => void;
}

function MadeUpFields({ made, change }: FieldsProps): VNode {
  return (
    <>
      <div class="row">
        <label class="short">
          Method
          <select
            value={made.method}
            onChange={({ currentTarget }) => change({ method: currentTarget.value })}
          >
            {METHODS.map((method) => (
              <option key={method}>{method}</option>
            ))}
          </select>
        </label>
        <label class="long">
          Path
          <input value={made.path} onInput={({ currentTarget }) => change({ path: currentTarget.value })} />
        </label>
      </div>
      <div class="row">
        <label class="long">
          Host
          <input
            placeholder="localhost"
            value={made.host}
            onInput={({ currentTarget }) => change({ host: currentTarget.value })}
          />
        </label>
        <label class="long">
          Address of the client
          <input
            placeholder="127.0.0.1"
            value={made.client}
            onInput={({ currentTarget }) => change({ client: currentTarget.value })}
          />
        </label>
      </div>
      <label>
        Headers
        <textarea
          rows={3}
          placeholder="X-Tenant: acme"
          value={made.headers}
          onInput={({ currentTarget }) => change({ headers: currentTarget.value })}
        />
      </label>
    </>
  );
}

function bodyOf({ method, path, host, client, headers }: Made): object {
  return {
    method,
    path,
    ...(host === '' ? {} : { host }),
    ...(client === '' ? {} : { client }),
    headers: headers
      .split('\n')
      .filter((line) => line.includes(':'))
      .map((line) => [line.slice(0, line.indexOf(':')).trim(), line.slice(line.indexOf(':') + 1).trim()]),
  };
}
