import type { DenialCounts, DenialTally } from './denial-tally.ts';
import type { LogReading, Replay } from './replay-log.ts';
import { count, moment, REASONS, share, shownKey, textTable as table } from './report-words.ts';

const TOP_KEYS = 10;
const TOP_SLICES = 5;

/** The result as tables for a terminal. */
export function textReport({ reading, tally, comparison }: Replay): string {
  const { total } = tally;
  const blocks = [
    readingText(reading),
    `${count(total.requests)} requests: ${count(total.denied)} would be denied (${share(total.denied, total.requests)})${
      total.wouldDeny === 0 ? '' : `, ${count(total.wouldDeny)} more in shadow mode`
    }`,
  ];
  if (comparison !== undefined) {
    const { current, newlyDenied, newlyAdmitted } = comparison;
    blocks.push(
      [
        `Now: ${count(current.total.denied)} denied (${share(current.total.denied, current.total.requests)}).`,
        `Only the new configuration denies ${count(newlyDenied.total.requests)}, only the current one ${count(newlyAdmitted.total.requests)}.`,
      ].join('\n'),
    );
    if (newlyDenied.total.requests > 0) blocks.push(keysText('newly denied key', newlyDenied));
    if (newlyAdmitted.total.requests > 0) blocks.push(keysText('newly admitted key', newlyAdmitted));
  }
  blocks.push(table(['rule', 'requests', 'denied', 'share', 'shadow'], [...tally.rules].map(countsRow)));
  if (tally.reasons.size > 0) {
    blocks.push(
      table(
        ['reason', 'requests'],
        [...tally.reasons].map(([reason, found]) => [REASONS.get(reason) ?? reason, count(found)]),
      ),
    );
  }
  if (tally.policies.size > 0) {
    blocks.push(
      table(
        ['policy', 'denied', 'shadow'],
        [...tally.policies].map(([name, found]) => [name, count(found.denied), count(found.wouldDeny)]),
      ),
    );
  }
  if (tally.deniedKeyCount > 0) blocks.push(keysText('key', tally), slicesText(tally));
  return `${blocks.filter((block) => block !== '').join('\n\n')}\n`;
}

/** What was read. */
export function readingText(reading: LogReading): string {
  const { fromMs, toMs, lines, otherLines, unreadable, examples, formats, lateRequests } = reading;
  const names = [...new Set(formats.values())].join(', ');
  const text = [`${count(lines)} lines (${names === '' ? 'nothing' : names})`];
  if (fromMs !== undefined && toMs !== undefined) text.push(` from ${moment(fromMs)} to ${moment(toMs)}`);
  if (otherLines > 0) text.push(`; ${count(otherLines)} about something else`);
  if (lateRequests > 0) text.push(`; ${count(lateRequests)} far out of order`);
  const rows = [text.join('')];
  if (unreadable > 0)
    rows.push(`${count(unreadable)} lines cannot be read (${share(unreadable, lines)}), such as:`);
  for (const { log, number, text: shown } of examples) rows.push(`  ${log}:${number}: ${shown}`);
  return rows.join('\n');
}

function keysText(title: string, tally: DenialTally): string {
  const keys = tally.deniedKeys(TOP_KEYS);
  const more = tally.deniedKeyCount - keys.length;
  const rows = keys.map(({ key, policy, denied }) => [shownKey(key), policy, count(denied)]);
  const text = table([title, 'policy', 'denied'], rows);
  return more > 0 ? `${text}\nand ${count(more)} more` : text;
}

function slicesText(tally: DenialTally): string {
  const { sliceMs, slices } = tally.timeline();
  const worst = slices
    .filter(({ denied, wouldDeny }) => denied + wouldDeny > 0)
    .toSorted((a, b) => b.denied + b.wouldDeny - (a.denied + a.wouldDeny))
    .slice(0, TOP_SLICES)
    .toSorted((a, b) => a.fromMs - b.fromMs);
  const title = sliceMs === 60_000 ? 'worst minutes' : `worst ${sliceMs / 60_000} minutes`;
  return table(
    [title, 'requests', 'denied', 'shadow'],
    worst.map((slice) => [
      moment(slice.fromMs),
      count(slice.requests),
      count(slice.denied),
      count(slice.wouldDeny),
    ]),
  );
}

function countsRow([name, { requests, denied, wouldDeny }]: readonly [
  string,
  DenialCounts,
]): readonly string[] {
  return [name, count(requests), count(denied), share(denied, requests), count(wouldDeny)];
}
