import { count, share, textTable } from './report-words.ts';
import type { SuggestedLimit, Suggestions } from './suggested-limits.ts';
import { readingText } from './text-report.ts';

/** Most clients never meet it, and those who do are worth a look. */
const USUAL_PERCENTILE = 99;

/** What `spillgate suggest` says. */
export function suggestionText(suggestions: Suggestions): string {
  const { reading, clients, isPartial, withoutKey, limits } = suggestions;
  const blocks = [readingText(reading)];
  if (withoutKey > 0) blocks.push(`${count(withoutKey)} requests do not say who asks, and are left out.`);
  if (isPartial) blocks.push(`Only the first ${count(clients)} clients are counted.`);
  const usual = limits.findLast(({ percentile }) => percentile <= USUAL_PERCENTILE);
  if (usual === undefined)
    return `${[...blocks, 'There is nothing to suggest a limit from.'].join('\n\n')}\n`;
  const requests = reading.requests - withoutKey;
  const rows = limits.map((limit) => [
    `${limit.percentile}% of clients`,
    `${count(limit.average)} per minute`,
    count(limit.burst),
    `${count(limit.denied)} (${share(limit.denied, requests)})`,
    `${count(limit.deniedClients)} of ${count(clients)} (${share(limit.deniedClients, clients)})`,
  ]);
  blocks.push(
    textTable(['room for', 'average', 'burst', 'requests denied', 'clients denied'], rows),
    `To begin with, in shadow mode:\n\n${snippet(usual)}`,
  );
  return `${blocks.join('\n\n')}\n`;
}

function snippet({ average, burst }: SuggestedLimit): string {
  return `rate_limit:
  policies:
    suggested: { average: ${average}, burst: ${burst}, period: 1m }
  rules:
    - { name: everything, match: { path: "/**" }, policies: [suggested], shadow: true }`;
}
