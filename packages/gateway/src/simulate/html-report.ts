import type { DenialTally, TimeSlice } from './denial-tally.ts';
import type { Replay } from './replay-log.ts';
import type { LogReading } from './log-source.ts';
import { count, moment, REASONS, share, shownKey } from './text-report.ts';

const TOP_KEYS = 50;

/** The result as one page that needs nothing from elsewhere: no scripts, plots as SVG. */
export function htmlReport({ reading, tally, comparison, notes }: Replay): string {
  const { total } = tally;
  const facts: readonly Fact[] = [
    ['requests', count(total.requests)],
    ['denied', `${count(total.denied)} (${share(total.denied, total.requests)})`],
    ['in shadow mode', count(total.wouldDeny)],
    ['keys denied', count(tally.deniedKeyCount)],
    ...outageFacts(tally),
  ];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Simulation: ${count(total.denied)} of ${count(total.requests)} requests denied</title>
<style>${STYLE}</style>
</head>
<body>
<h1>Simulation</h1>
<p class="about">${escaped(aboutLog(reading))}</p>
${factList(facts)}
${notes.length === 0 ? '' : `<ul>${notes.map((note) => `<li>${escaped(note)}</li>`).join('')}</ul>`}
<h2>Over time</h2>
${timelinePlot(tally, tally)}
${comparison === undefined ? '' : comparisonHtml(tally, comparison)}
<h2>By rule</h2>
${table(
  ['rule', 'requests', 'denied', 'share', 'in shadow mode'],
  [...tally.rules].map(([rule, found]) => [
    rule,
    count(found.requests),
    count(found.denied),
    share(found.denied, found.requests),
    count(found.wouldDeny),
  ]),
)}
${breakdown(tally)}
${unreadableHtml(reading)}
</body>
</html>
`;
}

type Fact = readonly [name: string, value: string];

function outageFacts({ degraded: { requests, denied } }: DenialTally): readonly Fact[] {
  if (requests === 0) return [];
  return [['denied while Redis was away', `${count(denied)} of ${count(requests)}`]];
}

function breakdown(tally: DenialTally): string {
  if (tally.reasons.size === 0) return '';
  return `<h2>By policy</h2>
${table(
  ['policy', 'denied', 'in shadow mode'],
  [...tally.policies].map(([name, { denied, wouldDeny }]) => [name, count(denied), count(wouldDeny)]),
)}
<h2>By reason</h2>
${table(
  ['reason', 'requests'],
  [...tally.reasons].map(([reason, found]) => [REASONS.get(reason) ?? reason, count(found)]),
)}
<h2>Keys denied most often</h2>
${keysPlot(tally)}`;
}

function comparisonHtml(tally: DenialTally, comparison: NonNullable<Replay['comparison']>): string {
  const { current, newlyDenied, newlyAdmitted } = comparison;
  const { requests } = tally.total;
  const facts: readonly Fact[] = [
    [
      'denied by the current one',
      `${count(current.total.denied)} (${share(current.total.denied, requests)})`,
    ],
    ['denied by the new one', `${count(tally.total.denied)} (${share(tally.total.denied, requests)})`],
    ['newly denied', count(newlyDenied.total.requests)],
    ['newly admitted', count(newlyAdmitted.total.requests)],
  ];
  const section = (title: string, found: DenialTally): string =>
    found.total.requests === 0 ? '' : `<h3>${title}</h3>\n${timelinePlot(found, tally)}\n${keysPlot(found)}`;
  return `<h2>Compared with the current configuration</h2>
${factList(facts)}
${section('Only the new configuration denies', newlyDenied)}
${section('Only the current configuration denies', newlyAdmitted)}`;
}

function aboutLog({ fromMs, toMs, lines, formats }: LogReading): string {
  const when =
    fromMs === undefined || toMs === undefined ? '' : `, from ${moment(fromMs)} to ${moment(toMs)}`;
  const names = [...formats].map(([log, format]) => `${log} (${format})`).join(', ');
  return `${count(lines)} lines of ${names}${when}`;
}

function unreadableHtml({ lines, unreadable, examples }: LogReading): string {
  if (unreadable === 0) return '';
  const shown = examples.map(({ log, number, text: line }) => `${log}:${number}: ${line}`).join('\n');
  return `<h2>Lines that cannot be read</h2>
<p>${count(unreadable)} lines (${share(unreadable, lines)}), such as:</p>
<pre>${escaped(shown)}</pre>`;
}

function factList(facts: readonly Fact[]): string {
  return `<dl>${facts.map(([name, value]) => `<div><dt>${escaped(name)}</dt><dd>${escaped(value)}</dd></div>`).join('')}</dl>`;
}

const WIDTH = 960;
const HEIGHT = 200;
/** For the numbers of the axis. */
const LEFT = 56;
const BARS = 240;
const TICKS = 6;

/** A bar per slice, or for as many of them as fit, over all of the time of `whole`. */
function timelinePlot(tally: DenialTally, whole: DenialTally): string {
  const { bars, barMs } = gathered(tally, whole);
  if (bars.length === 0) return '<p>No requests.</p>';
  const top = roundMost(Math.max(...bars.map(({ requests }) => requests)));
  const width = (WIDTH - LEFT) / bars.length;
  const yOf = (amount: number): number => HEIGHT - (HEIGHT * amount) / top;
  const drawn = bars.map(({ fromMs, requests, denied, wouldDeny }, at) => {
    if (requests === 0) return '';
    const box = (kind: string, from: number, amount: number): string =>
      amount === 0
        ? ''
        : `<rect class="${kind}" x="${round(LEFT + at * width)}" y="${round(yOf(from + amount))}" width="${round(width * 0.9)}" height="${round((HEIGHT * amount) / top)}"/>`;
    const title = `${moment(fromMs)}: ${count(requests)} requests, ${count(denied)} denied, ${count(wouldDeny)} in shadow mode`;
    const admitted = requests - denied - wouldDeny;
    return `<g><title>${escaped(title)}</title>${box('denied', 0, denied)}${box('shadow', denied, wouldDeny)}${box('admitted', denied + wouldDeny, admitted)}</g>`;
  });
  return `<figure><svg viewBox="0 0 ${WIDTH} ${HEIGHT + 36}" role="img" aria-label="Requests over time: denied, in shadow mode, admitted">
<g transform="translate(0 10)">
${[0, 0.5, 1].map((part) => levelLine(top * part, yOf(top * part))).join('\n')}
${drawn.filter((bar) => bar !== '').join('\n')}
${timeTicks(bars, width)}
</g></svg><figcaption>Requests per ${minutes(barMs)}: <span class="key denied"></span>denied <span class="key shadow"></span>in shadow mode <span class="key admitted"></span>admitted</figcaption></figure>`;
}

function levelLine(amount: number, y: number): string {
  return `<line class="level" x1="${LEFT}" x2="${WIDTH}" y1="${round(y)}" y2="${round(y)}"/><text x="${LEFT - 6}" y="${round(y) + 4}" text-anchor="end">${count(amount)}</text>`;
}

const DAY_MS = 86_400_000;

function timeTicks(bars: readonly TimeSlice[], width: number): string {
  const every = Math.max(1, Math.ceil(bars.length / TICKS));
  const isLong = (bars.at(-1)?.fromMs ?? 0) - (bars[0]?.fromMs ?? 0) > DAY_MS;
  return bars
    .map(({ fromMs }, at) => {
      if (at % every !== 0) return '';
      const written = moment(fromMs);
      const text = isLong ? written.slice(5, 16).replace('T', ' ') : written.slice(11, 16);
      return `<text x="${round(LEFT + at * width)}" y="${HEIGHT + 18}">${text}</text>`;
    })
    .join('');
}

function minutes(ms: number): string {
  const number = ms / 60_000;
  return number === 1 ? 'minute' : `${number} minutes`;
}

/** One, two or five times a power of ten, and even: half of it is a level, too. */
function roundMost(most: number): number {
  const unit = 10 ** Math.floor(Math.log10(Math.max(1, most)));
  const found = [1, 2, 4, 5, 6, 8, 10].find((times) => times * unit >= most) ?? 10;
  return Math.max(2, found * unit);
}

interface Timeline {
  readonly bars: readonly TimeSlice[];
  readonly barMs: number;
}

/** Neighbours together, where there are more than can be drawn; times without requests are empty bars. */
function gathered(tally: DenialTally, whole: DenialTally): Timeline {
  const { slices: all, sliceMs } = whole.timeline();
  const [first, last] = [all[0]?.fromMs, all.at(-1)?.fromMs];
  if (first === undefined || last === undefined) return { bars: [], barMs: sliceMs };
  const barMs = sliceMs * Math.max(1, Math.ceil((last - first + sliceMs) / sliceMs / BARS));
  const bars: TimeSlice[] = [];
  for (let fromMs = first; fromMs <= last; fromMs += barMs) {
    bars.push({ fromMs, requests: 0, denied: 0, wouldDeny: 0 });
  }
  for (const { fromMs, requests, denied, wouldDeny } of tally.timeline().slices) {
    const bar = bars[Math.max(0, Math.floor((fromMs - first) / barMs))];
    if (bar === undefined) continue;
    bar.requests += requests;
    bar.denied += denied;
    bar.wouldDeny += wouldDeny;
  }
  return { bars, barMs };
}

/** A table with a bar in each row. */
function keysPlot(tally: DenialTally): string {
  const keys = tally.deniedKeys(TOP_KEYS);
  const most = keys[0] === undefined ? 1 : keys[0].denied + keys[0].wouldDeny;
  const rows = keys.map(
    ({ key, policy, denied, wouldDeny }) =>
      `<tr><td><code>${escaped(shownKey(key))}</code></td><td>${escaped(policy)}</td><td class="number">${count(denied)}</td><td class="number">${count(wouldDeny)}</td><td><svg viewBox="0 0 100 8" preserveAspectRatio="none" class="bar" aria-hidden="true"><rect class="denied" width="${round((100 * denied) / most)}" height="8"/><rect class="shadow" x="${round((100 * denied) / most)}" width="${round((100 * wouldDeny) / most)}" height="8"/></svg></td></tr>`,
  );
  const more = tally.keyCount - keys.length;
  return `<div class="wide"><table><thead><tr><th>key</th><th>policy</th><th class="number">denied</th><th class="number">in shadow mode</th><th><span class="hidden">drawn</span></th></tr></thead><tbody>
${rows.join('\n')}
</tbody></table></div>${more > 0 ? `<p>and ${count(more)} more</p>` : ''}`;
}

const NUMBER = /^[\d,.%]+$/;

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cell = (text: string): string =>
    NUMBER.test(text) ? `<td class="number">${text}</td>` : `<td>${escaped(text)}</td>`;
  const body = rows.map((row) => `<tr>${row.map(cell).join('')}</tr>`).join('\n');
  const [first = []] = rows;
  const title = (name: string, at: number): string =>
    `<th${NUMBER.test(first[at] ?? '') ? ' class="number"' : ''}>${escaped(name)}</th>`;
  return `<div class="wide"><table><thead><tr>${head.map(title).join('')}</tr></thead><tbody>\n${body}\n</tbody></table></div>`;
}

const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['&', '&amp;'],
  ['<', '&lt;'],
  ['>', '&gt;'],
  ['"', '&quot;'],
  ["'", '&#39;'],
]);

/** Logs have what strangers sent. */
function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ESCAPES.get(character) ?? '');
}

function round(number: number): number {
  return Math.round(number * 100) / 100;
}

const STYLE = `
:root { color-scheme: light dark; --denied: #c62828; --shadow: #b26a00; --admitted: #5b8def; --line: #8884; --quiet: #8882; }
@media (prefers-color-scheme: dark) { :root { --denied: #ff6b60; --shadow: #e0a030; --admitted: #4f7fd8; } body { background: #15181d; color: #e6e8eb; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.2rem; } .about { margin-top: .2rem; opacity: .75; } ul { padding-left: 1.2rem; }
dl { display: flex; flex-wrap: wrap; gap: .8rem; } dl div { background: var(--quiet); border-radius: 8px; padding: .5rem .9rem; }
dt { font-size: .85em; opacity: .75; } dd { margin: 0; font-size: 1.4em; font-variant-numeric: tabular-nums; }
figure { margin: 0; } figcaption { font-size: .9em; margin-bottom: 1rem; } svg { width: 100%; height: auto; } svg text { fill: currentColor; font-size: 12px; opacity: .8; } svg.bar { height: 8px; min-width: 6rem; }
.level { stroke: var(--line); } .wide { overflow-x: auto; } code { overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
th { font-size: .85em; opacity: .75; } .number { text-align: right; font-variant-numeric: tabular-nums; } pre { overflow: auto; background: var(--quiet); border-radius: 8px; padding: .8rem; }
.denied { fill: var(--denied); background: var(--denied); } .shadow { fill: var(--shadow); background: var(--shadow); }
.admitted { fill: var(--admitted); background: var(--admitted); } .key { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 .8em; border-radius: 2px; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
`;
