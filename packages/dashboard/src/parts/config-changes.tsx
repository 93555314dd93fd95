import type { VNode } from 'preact';
import type { ConfigShown } from 'spillgate-gateway';

type Reload = ConfigShown['reloads'][number];
type Difference = NonNullable<Reload['differences']>['items'][number];

interface DifferencesProps {
  readonly differences: NonNullable<Reload['differences']>;
}

/** Which settings change, from what to what. */
export function Differences({ differences: { total, items } }: DifferencesProps): VNode {
  return (
    <div class="table-wrap" tabIndex={0}>
      <table class="differences">
        <thead>
          <tr>
            <th scope="col">Setting</th>
            <th scope="col">Before</th>
            <th scope="col">After</th>
          </tr>
        </thead>
        <tbody>
          {items.map((difference) => (
            <DifferenceRow key={difference.path} difference={difference} />
          ))}
        </tbody>
      </table>
      {total > items.length ? <p class="muted">and {total - items.length} more</p> : undefined}
    </div>
  );
}

function DifferenceRow({ difference }: { readonly difference: Difference }): VNode {
  const { path, before, after } = difference;
  return (
    <tr>
      <td class="mono wide">{path}</td>
      <td class="mono wide">
        {before === undefined ? <span class="muted">–</span> : <del>{valueText(before)}</del>}
      </td>
      <td class="mono wide">
        {after === undefined ? <span class="muted">removed</span> : <ins>{valueText(after)}</ins>}
      </td>
    </tr>
  );
}

/** What is wrong with a configuration, each with its place and what to do. */
export function Problems({ problems }: { readonly problems: Reload['problems'] }): VNode | undefined {
  if (problems.length === 0) return undefined;
  return (
    <ul class="problems">
      {problems.map((problem) => (
        <li key={`${problem.path} ${problem.message}`}>
          <span class={`pill ${problem.severity === 'error' ? 'failed' : 'denied'}`}>{problem.severity}</span>
          <span>
            {problem.message}. <span class="muted">{problem.suggestion}</span>
            <span class="muted mono"> {originText(problem.origin)}</span>
          </span>
        </li>
      ))}
    </ul>
  );
}

export function valueText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

export function originText(origin: ConfigShown['settings'][number]['origin']): string {
  if (origin.from === 'file') return `${origin.file.split('/').at(-1) ?? ''}:${origin.line}`;
  return origin.from === 'env' ? origin.name : 'default';
}
