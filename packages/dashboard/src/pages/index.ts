import type { ComponentType } from 'preact';
import type { LiveFeed } from '../live-feed.ts';
import type { IconName } from '../parts/icon.tsx';
import { ConfigurationPage } from './configuration-page.tsx';
import { DenialsPage } from './denials-page.tsx';
import { ExplainPage } from './explain-page.tsx';
import { FleetPage } from './fleet-page.tsx';
import { KeysPage } from './keys-page.tsx';
import { LivePage } from './live-page.tsx';

export interface PageProps {
  readonly feed: LiveFeed;
  /** What the address says behind the name of the page. */
  readonly words: readonly string[];
}

export interface Page {
  /** In the address. */
  readonly name: string;
  readonly title: string;
  readonly icon: IconName;
  readonly View: ComponentType<PageProps>;
}

/** The first is shown where the address names none. */
export const PAGES: readonly [Page, ...Page[]] = [
  { name: 'live', title: 'Live', icon: 'live', View: LivePage },
  { name: 'denials', title: 'Denials', icon: 'denials', View: DenialsPage },
  { name: 'keys', title: 'Keys', icon: 'keys', View: KeysPage },
  { name: 'explain', title: 'Explain', icon: 'explain', View: ExplainPage },
  { name: 'configuration', title: 'Config', icon: 'configuration', View: ConfigurationPage },
  { name: 'fleet', title: 'Fleet', icon: 'fleet', View: FleetPage },
];
