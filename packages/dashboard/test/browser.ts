import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { source as axe } from 'axe-core';
import { chromium, type BrowserContext, type Page } from 'playwright-core';
import { PATIENCE_MS } from '../../../test/patience.ts';

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export interface Viewing {
  readonly width?: number;
  readonly height?: number;
  readonly theme?: 'light' | 'dark';
}

/** Debian's chromium with an empty profile. */
export class Browser {
  /** What pages complained about: errors of scripts, and what their policy forbids. */
  readonly complaints: string[] = [];
  private readonly context: BrowserContext;
  private readonly profile: string;

  private constructor(context: BrowserContext, profile: string) {
    this.context = context;
    this.profile = profile;
  }

  static async open({ width = 1280, height = 900, theme = 'light' }: Viewing = {}): Promise<Browser> {
    const profile = mkdtempSync(join(tmpdir(), 'spillgate-chromium-'));
    const context = await chromium.launchPersistentContext(profile, {
      executablePath: '/usr/bin/chromium',
      args: FLAGS,
      viewport: { width, height },
      colorScheme: theme,
    });
    context.setDefaultTimeout(PATIENCE_MS);
    return new Browser(context, profile);
  }

  async visit(address: string): Promise<Page> {
    const page = await this.context.newPage();
    page.on('pageerror', (error) => this.complaints.push(error.message));
    page.on('console', (message) => {
      if (message.type() === 'error') this.complaints.push(message.text());
    });
    await page.goto(address);
    return page;
  }

  async close(): Promise<void> {
    await this.context.close();
    rmSync(this.profile, { recursive: true, force: true });
  }
}

/** What keeps somebody from using the page, as axe sees it. */
export async function violations(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe);
  const found = await page.evaluate<{ readonly id: string; readonly nodes: readonly string[] }[]>(
    `axe.run().then(({ violations }) => violations.map(({ id, nodes }) => ({ id, nodes: nodes.map(({ html }) => html) })))`,
  );
  return found.map(({ id, nodes }) => `${id}: ${nodes.join(' ')}`);
}
