import type { VNode } from 'preact';
import { OUTCOME_WORDS, reasonOf, type RecentLine } from '../decisions.ts';
import { moment } from '../words.ts';

/** Decisions, the latest first, each with a way to its story. */
export function DecisionTable({ lines }: { readonly lines: readonly RecentLine[] }): VNode {
  return (
    <div class="table-wrap" tabIndex={0}>
      <table class="decisions">
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Outcome</th>
            <th scope="col">Request</th>
            <th scope="col">Who</th>
            <th scope="col">Why</th>
            <th scope="col">
              <span class="visually-hidden">Explain</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {lines.map((line) => (
            <DecisionRow key={`${line.id} ${line.number}`} line={line} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function DecisionRow({ line }: { readonly line: RecentLine }): VNode {
  const { name, pill } = OUTCOME_WORDS[line.outcome];
  return (
    <tr>
      <td class="numbers muted nowrap when">{moment(Date.parse(line.at))}</td>
      <td class="what">
        <span class={`pill ${pill}`}>{name}</span>
      </td>
      <td class="mono wide request">
        {line.method} {line.path}
      </td>
      <td class="mono wide who">
        {line.keys.length === 0
          ? (line.client ?? '–')
          : [...new Set(line.keys)].map((key, at) => (
              <span key={key}>
                {at === 0 ? '' : ', '}
                <a href={`#/keys/${encodeURIComponent(key)}`}>{key}</a>
              </span>
            ))}
      </td>
      <td class="why">{reasonOf(line)}</td>
      <td class="number more">
        <a href={`#/explain/${encodeURIComponent(line.id)}`} aria-label={`Explain ${line.id}`}>
          Explain
        </a>
      </td>
    </tr>
  );
}
