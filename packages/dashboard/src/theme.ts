import { Observable } from './observable.ts';

export type Theme = 'light' | 'dark';

const KEPT_AS = 'spillgate-theme';
const system = window.matchMedia('(prefers-color-scheme: dark)');

/** What is shown: the choice of the reader, else that of the system. */
export const theme = new Observable<Theme>(chosen() ?? systemTheme());

document.documentElement.dataset['theme'] = theme.value;
system.addEventListener('change', () => {
  if (chosen() === undefined) show(systemTheme());
});

export function switchTheme(): void {
  const next = theme.value === 'dark' ? 'light' : 'dark';
  localStorage.setItem(KEPT_AS, next);
  show(next);
}

function show(next: Theme): void {
  document.documentElement.dataset['theme'] = next;
  theme.set(next);
}

function chosen(): Theme | undefined {
  const kept = localStorage.getItem(KEPT_AS);
  return kept === 'light' || kept === 'dark' ? kept : undefined;
}

function systemTheme(): Theme {
  return system.matches ? 'dark' : 'light';
}
