import type { ComponentChildren, VNode } from 'preact';

interface CardProps {
  readonly title: string;
  /** Columns of twelve. */
  readonly span?: 3 | 4 | 6 | 8 | 12;
  readonly aside?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function Card({ title, span = 12, aside, children }: CardProps): VNode {
  return (
    <section class={`card span-${span}`} aria-label={title}>
      <header>
        <h2>{title}</h2>
        {aside === undefined ? undefined : <div class="grow">{aside}</div>}
      </header>
      {children}
    </section>
  );
}

interface EmptyProps {
  readonly title: string;
  readonly children?: ComponentChildren;
}

/** What stands where there is nothing to show, and what would change that. */
export function Empty({ title, children }: EmptyProps): VNode {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children}
    </div>
  );
}
