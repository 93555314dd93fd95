import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { findSession, signedIn, signOut, useMayChange } from './gateway-api.ts';
import { LiveFeed } from './live-feed.ts';
import { useObservable } from './observable.ts';
import { Empty } from './parts/card.tsx';
import { Icon } from './parts/icon.tsx';
import { SignIn } from './parts/sign-in.tsx';
import { PAGES, type Page } from './pages/index.ts';
import { switchTheme, theme } from './theme.ts';
import { span } from './words.ts';

export function App(): VNode {
  const { state, csrfToken } = useObservable(signedIn);
  useEffect(() => {
    // Without an answer the page goes on, and says that nobody answers.
    findSession().catch((failure: unknown) => {
      if (failure instanceof TypeError) signedIn.set({ state: 'in' });
    });
  }, []);
  if (state === 'unknown') return <Empty title="Connecting to the gateway…" />;
  return state === 'out' ? <SignIn /> : <Pages canSignOut={csrfToken !== undefined} />;
}

function Pages({ canSignOut }: { readonly canSignOut: boolean }): VNode {
  const feed = useFeed();
  const { page, words } = usePlace();
  const main = useRef<HTMLElement>(null);
  useEffect(() => {
    document.title = `${page.title} · Spillgate`;
  }, [page]);
  const { View } = page;
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => skipTo(event, main.current)}>
        Skip to content
      </a>
      <Side page={page} feed={feed} canSignOut={canSignOut} />
      <main ref={main} id="main" tabIndex={-1}>
        <Connection feed={feed} />
        <View feed={feed} words={words} />
      </main>
    </div>
  );
}

function skipTo(event: Event, main: HTMLElement | null): void {
  event.preventDefault();
  main?.focus();
}

function useFeed(): LiveFeed {
  const [feed] = useState(() => new LiveFeed());
  useEffect(() => {
    feed.open();
    return () => feed.close();
  }, [feed]);
  return feed;
}

interface Place {
  readonly page: Page;
  /** What stands behind the name of the page, decoded. */
  readonly words: readonly string[];
}

/** Which page the address names: `#/keys/api/ann`. */
function usePlace(): Place {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = (): void => setHash(location.hash);
    window.addEventListener('hashchange', follow);
    return () => window.removeEventListener('hashchange', follow);
  }, []);
  const [name = '', ...words] = hash.replace(/^#\//, '').split('/');
  const page = PAGES.find((each) => each.name === name) ?? PAGES[0];
  return { page, words: words.map((word) => decodeURIComponent(word)) };
}

interface SideProps {
  readonly page: Page;
  readonly feed: LiveFeed;
  readonly canSignOut: boolean;
}

function Side({ page, feed, canSignOut }: SideProps): VNode {
  const shown = useObservable(theme);
  const mayChange = useMayChange();
  return (
    <header class="side">
      <a class="brand" href="#/live">
        <img src="/ui/icon.svg" alt="" />
        Spillgate
      </a>
      <nav class="nav" aria-label="Pages">
        {PAGES.map(({ name, title, icon }) => (
          <a key={name} href={`#/${name}`} aria-current={name === page.name ? 'page' : undefined}>
            <Icon name={icon} />
            {title}
          </a>
        ))}
      </nav>
      <div class="side-foot">
        <Version feed={feed} />
        <button class="small" type="button" onClick={switchTheme}>
          {shown === 'dark' ? 'Light' : 'Dark'}
        </button>
        {mayChange ? undefined : (
          <span
            class="pill"
            title="Signed in with the read-only token: you see everything and change nothing."
          >
            Read-only
          </span>
        )}
        {canSignOut ? (
          <button class="small" type="button" onClick={() => void signOut()}>
            Sign out
          </button>
        ) : undefined}
      </div>
    </header>
  );
}

function Version({ feed }: { readonly feed: LiveFeed }): VNode {
  const { samples } = useObservable(feed.view);
  const last = samples.at(-1);
  return (
    <div class="version muted numbers">
      {last === undefined ? undefined : (
        <>
          <div>Version {last.version}</div>
          <div>Up {span(last.at - last.startedAt)}</div>
        </>
      )}
    </div>
  );
}

function Connection({ feed }: { readonly feed: LiveFeed }): VNode | undefined {
  const { state, samples } = useObservable(feed.view);
  if (state !== 'lost') return undefined;
  return (
    <div class="banner bad" role="status">
      <span class="dot down" aria-hidden="true" />
      <span>
        The gateway does not answer.{' '}
        {samples.length === 0 ? 'Trying again…' : 'What you see is the last that it said. Trying again…'}
      </span>
    </div>
  );
}
