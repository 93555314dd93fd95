import type { VNode } from 'preact';
import type { Explanation } from 'spillgate-gateway';
import { OUTCOME_WORDS } from '../decisions.ts';
import { amount, moment, span } from '../words.ts';
import { Card, Empty } from './card.tsx';
import { Level } from './level.tsx';

/** Why a request was admitted or not, from who asked to what would help. */
export function Story({ story }: { readonly story: Explanation }): VNode {
  const { name, pill } = OUTCOME_WORDS[story.outcome];
  return (
    <div class="grid">
      <section class={`card span-12 verdict ${pill}`} aria-label="Summary">
        <span class={`pill ${pill}`}>
          {name}
          {story.status === undefined ? '' : ` · ${story.status}`}
        </span>
        <p class="sentence">{story.summary}</p>
        {story.toBeAdmitted.length === 0 ? undefined : (
          <ul class="advice">
            {story.toBeAdmitted.map((advice) => (
              <li key={advice}>{advice}</li>
            ))}
          </ul>
        )}
      </section>
      <Policies story={story} />
      <Rules story={story} />
      <Who story={story} />
      <Decider story={story} />
    </div>
  );
}

function Policies({ story }: { readonly story: Explanation }): VNode {
  return (
    <Card title="Policies">
      {story.policies.length === 0 ? (
        <Empty title="No policy was asked" />
      ) : (
        <ul class="policies">
          {story.policies.map((policy) => (
            <PolicyState key={`${policy.policy} ${policy.key}`} policy={policy} />
          ))}
        </ul>
      )}
    </Card>
  );
}

function PolicyState({ policy }: { readonly policy: Explanation['policies'][number] }): VNode {
  const { allowed, shadow, before, after, limit, cost, key, retryAfterMs, fullAgainAt, resetAfterMs } =
    policy;
  return (
    <li>
      <div class="policy-head">
        <strong>{policy.policy}</strong>
        {policy.algorithm === undefined ? undefined : <span class="muted">{policy.algorithm}</span>}
        {shadow ? <span class="pill shadow">shadow mode</span> : undefined}
        <span class={`pill ${allowed ? 'allowed' : 'denied'}`}>{allowed ? 'admits' : 'denies'}</span>
        <a class="grow mono" href={`#/keys/${encodeURIComponent(key)}`}>
          {key}
        </a>
      </div>
      <Level
        label={`${policy.policy}: ${after} of ${limit} left`}
        value={after}
        before={before}
        limit={limit}
        denied={!allowed}
      />
      <div class="policy-foot numbers">
        <span>
          {amount(before)} → {amount(after)} of {amount(limit)} left, costs {cost}
        </span>
        <span class="muted">
          {allowed ? '' : retryAfterMs === null ? 'no wait helps · ' : `next in ${span(retryAfterMs)} · `}
          {resetAfterMs === 0 ? 'full' : `full again at ${moment(Date.parse(fullAgainAt))}`}
        </span>
      </div>
    </li>
  );
}

function Rules({ story }: { readonly story: Explanation }): VNode {
  return (
    <Card title="Rules" span={6} aside={<span class="muted">the first that matches decides</span>}>
      {story.rules.length === 0 ? (
        <Empty title={story.rulesAsked ? 'There are no rules' : 'No rule was asked'} />
      ) : (
        <ol class="rules">
          {story.rules.map(({ rule, matched, because }) => (
            <li key={rule} class={matched ? 'matched' : ''}>
              <span class="mark" aria-hidden="true">
                {matched ? '✓' : '–'}
              </span>
              <span>
                <strong>{rule}</strong> <span class="muted">{because}</span>
              </span>
            </li>
          ))}
        </ol>
      )}
      {story.rule === undefined && story.rules.length > 0 ? (
        <p class="muted">No rule matches: the default policy holds, if there is one.</p>
      ) : undefined}
    </Card>
  );
}

function Who({ story: { client, keys, request, at } }: { readonly story: Explanation }): VNode {
  return (
    <Card title="Who and what" span={6}>
      <dl class="facts">
        <dt>Request</dt>
        <dd class="mono">
          {request.method} {request.path}
        </dd>
        <dt>Host</dt>
        <dd class="mono">{request.host}</dd>
        <dt>Id</dt>
        <dd class="mono">{request.id}</dd>
        <dt>At</dt>
        <dd>{moment(Date.parse(at))}</dd>
        <dt>Client</dt>
        <dd>
          <span class="mono">{client.address ?? 'unknown'}</span>
          <div class="muted">{client.because}</div>
        </dd>
        <dt>Counted as</dt>
        <dd class="mono">{keys.length === 0 ? 'nobody' : keys.join(', ')}</dd>
      </dl>
    </Card>
  );
}

function Decider({ story: { decidedBy } }: { readonly story: Explanation }): VNode {
  return (
    <Card title="Decided by">
      <dl class="facts">
        <dt>Instance</dt>
        <dd class="mono">{decidedBy.instance}</dd>
        <dt>Store</dt>
        <dd>
          {decidedBy.store === 'redis' ? 'Redis' : 'memory of the instance'}
          {decidedBy.source === undefined ? '' : `, by ${SOURCES.get(decidedBy.source) ?? decidedBy.source}`}
          {decidedBy.cause === undefined ? undefined : <div class="muted">{decidedBy.cause}</div>}
        </dd>
        <dt>Clock</dt>
        <dd>{decidedBy.clock}</dd>
        <dt>Configuration</dt>
        <dd>
          {decidedBy.generation === undefined ? 'unknown' : `generation ${decidedBy.generation}`}
          {decidedBy.loadedAt === undefined ? '' : `, since ${moment(Date.parse(decidedBy.loadedAt))}`}
        </dd>
      </dl>
    </Card>
  );
}

const SOURCES: ReadonlyMap<string, string> = new Map([
  ['store', 'the store itself'],
  ['lease', 'a lease'],
  ['denialCache', 'an earlier denial that still holds'],
  ['overflow', 'the overflow state'],
  ['fallback', 'the local fallback'],
  ['failurePolicy', 'the failure policy'],
]);
