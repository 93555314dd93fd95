import type { DenialCounts, DenialTally } from './denial-tally.ts';
import type { Replay } from './replay-log.ts';
import type { LogReading } from './log-source.ts';
import { printed } from '../config/shown.ts';
import type { SuggestedLimit, Suggestions } from './suggested-limits.ts';

const TOP_KEYS = 10;
const TOP_SLICES = 5;

/** The result as tables for a terminal. */
export function textReport({ reading, tally, comparison, notes }: Replay): string {
  const { total } = tally;
  const blocks = [
    readingText(reading),
    notes.join('\n'),
    `${count(total.requests)} requests: ${count(total.denied)} would be denied (${share(total.denied, total.requests)})${
      total.wouldDeny === 0 ? '' : `, ${count(total.wouldDeny)} more in shadow mode`
    }`,
  ];
  if (tally.degraded.requests > 0) blocks.push(outageText(tally));
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
  blocks.push(textTable(['rule', 'requests', 'denied', 'share', 'shadow'], [...tally.rules].map(countsRow)));
  if (tally.reasons.size > 0) {
    blocks.push(
      textTable(
        ['reason', 'requests'],
        [...tally.reasons].map(([reason, found]) => [REASONS.get(reason) ?? reason, count(found)]),
      ),
    );
  }
  if (tally.policies.size > 0) {
    blocks.push(
      textTable(
        ['policy', 'denied', 'shadow'],
        [...tally.policies].map(([name, found]) => [name, count(found.denied), count(found.wouldDeny)]),
      ),
    );
  }
  if (tally.keyCount > 0) blocks.push(keysText('key', tally));
  if (total.denied + total.wouldDeny > 0) blocks.push(slicesText(tally));
  return `${blocks.filter((block) => block !== '').join('\n\n')}\n`;
}

/** What was read. */
function readingText(reading: LogReading): string {
  const { fromMs, toMs, lines, otherLines, unreadable, examples, formats, lateRequests } = reading;
  const names = [...new Set(formats.values())].join(', ');
  const text = [`${count(lines)} lines (${names === '' ? 'nothing' : names})`];
  if (fromMs !== undefined && toMs !== undefined) text.push(` from ${moment(fromMs)} to ${moment(toMs)}`);
  if (otherLines > 0) text.push(`; ${count(otherLines)} about something else`);
  if (lateRequests > 0) text.push(`; ${count(lateRequests)} far out of order`);
  const rows = [text.join('')];
  if (unreadable > 0)
    rows.push(`${count(unreadable)} lines cannot be read (${share(unreadable, lines)}), such as:`);
  for (const { log, number, text: shown } of examples) rows.push(`  ${log}:${number}: ${printed(shown)}`);
  return rows.join('\n');
}

/** What became of those who came while Redis was away. */
function outageText({ degraded: { requests, denied } }: DenialTally): string {
  return `${count(requests)} requests came while Redis was away: ${count(denied)} of them would be denied (${share(denied, requests)})`;
}

function keysText(title: string, tally: DenialTally): string {
  const keys = tally.deniedKeys(TOP_KEYS);
  const more = tally.keyCount - keys.length;
  const hasShadow = keys.some(({ wouldDeny }) => wouldDeny > 0);
  const rows = keys.map(({ key, policy, denied, wouldDeny }) => [
    shownKey(key),
    policy,
    count(denied),
    ...(hasShadow ? [count(wouldDeny)] : []),
  ]);
  const text = textTable([title, 'policy', 'denied', ...(hasShadow ? ['shadow'] : [])], rows);
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
  return textTable(
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

// Numbers, times and reasons as reports show them.

/** Why a request was refused, in words. */
export const REASONS: ReadonlyMap<string, string> = new Map([
  ['limits', 'a policy is used up'],
  ['denyList', 'on a deny list'],
  ['missingKey', 'no key: the log does not have the header or parameter that says who asks'],
  ['invalidCost', 'a cost that is no number, or too much'],
  ['ambiguousPath', 'a path that can be read in two ways'],
  ['invalid', 'a path that the gateway refuses'],
  ['storeFailure', 'Redis was away, and the failure policy refuses'],
  ['unidentified', 'an API key or token that is not valid'],
  ['authorization', 'the authorization service said no, as the log tells'],
]);

export function count(number: number): string {
  return number.toLocaleString('en-US');
}

export function share(part: number, whole: number): string {
  return whole === 0 ? '0%' : `${((100 * part) / whole).toFixed(3)}%`;
}

export function moment(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}

const SHOWN_KEY = 60;
/** Printable and of limited length, whatever the client sent. */
export function shownKey(key: string): string {
  const short = key.length > SHOWN_KEY ? `${key.slice(0, SHOWN_KEY)}...` : key;
  return printed(short);
}

/** The first column is words, the others are numbers or words of their own. */
function textTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((name, column) =>
    Math.max(name.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) =>
        column > 0 && /^[\d,.%]+$/.test(rows[0]?.[column] ?? '')
          ? cell.padStart(widths[column] ?? 0)
          : cell.padEnd(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd();
  return [line(head), ...rows.map(line)].join('\n');
}

const KEYS = 100;

/** The result for programs. */
export function jsonReport({ reading, tally, comparison, notes }: Replay): object {
  return {
    reading: readingJson(reading),
    notes,
    ...tallyOf(tally),
    against: comparison && {
      current: tallyOf(comparison.current),
      newlyDenied: tallyOf(comparison.newlyDenied),
      newlyAdmitted: tallyOf(comparison.newlyAdmitted),
    },
  };
}

export function readingJson({ formats, fromMs, toMs, ...counts }: LogReading): object {
  return {
    ...counts,
    formats: Object.fromEntries(formats),
    from: fromMs === undefined ? undefined : new Date(fromMs).toISOString(),
    to: toMs === undefined ? undefined : new Date(toMs).toISOString(),
  };
}

function tallyOf(tally: DenialTally): object {
  const { sliceMs, slices } = tally.timeline();
  return {
    ...tally.total,
    reasons: Object.fromEntries(tally.reasons),
    rules: [...tally.rules].map(([rule, counts]) => ({ rule, ...counts })),
    policies: [...tally.policies].map(([policy, { denied, wouldDeny }]) => ({ policy, denied, wouldDeny })),
    classes: [...tally.classes].map(([name, counts]) => ({ class: name, ...counts })),
    whileAway: tally.degraded,
    deniedKeys: tally.deniedKeyCount,
    keys: tally.deniedKeys(KEYS),
    sliceSeconds: sliceMs / 1000,
    slices: slices.map(({ fromMs, ...counts }) => ({ from: new Date(fromMs).toISOString(), ...counts })),
  };
}

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
    `${count(clients)} clients. Each line is a limit per client that would have denied no request of so many of them. The average is their busiest minute, the burst what they need at once besides:`,
    textTable(['room for', 'average', 'burst', 'requests denied', 'clients denied'], rows),
  );
  if (usual.mostDenied.length > 0) {
    const met = usual.mostDenied.map(({ client, denied }) => [shownKey(client), count(denied)]);
    blocks.push(
      `${count(usual.average)} per minute would have denied these most. Give those that you know more, by an override or a rule of their own:`,
      textTable(['client', 'requests denied'], met),
    );
  }
  blocks.push(`To begin with, in shadow mode:\n\n${snippet(usual)}`);
  return `${blocks.join('\n\n')}\n`;
}

function snippet({ average, burst }: SuggestedLimit): string {
  return `rate_limit:
  policies:
    suggested: { average: ${average}, burst: ${burst}, period: 1m }
  rules:
    - { name: everything, match: { path: "/**" }, policies: [suggested], shadow: true }`;
}
