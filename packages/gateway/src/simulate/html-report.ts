import type { DenialTally, TimeSlice } from './denial-tally.ts';
import type { LogReading, Replay } from './replay-log.ts';
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
${readingHtml(reading)}
${notes.map((note) => `<p>${escaped(note)}</p>`).join('\n')}
${factList(facts)}
${comparison === undefined ? '' : comparisonHtml(tally, comparison)}
<h2>Over time</h2>
${timelinePlot(tally)}
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
</body>
</html>
`;
}

type Fact = readonly [name: string, value: string];

function breakdown(tally: DenialTally): string {
  if (tally.deniedKeyCount === 0 && tally.reasons.size === 0) return '';
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
  const facts: readonly Fact[] = [
    ['denied now', `${count(current.total.denied)} (${share(current.total.denied, tally.total.requests)})`],
    ['newly denied', count(newlyDenied.total.requests)],
    ['newly admitted', count(newlyAdmitted.total.requests)],
  ];
  const section = (title: string, found: DenialTally): string =>
    found.total.requests === 0 ? '' : `<h3>${title}</h3>\n${keysPlot(found)}`;
  return `<h2>Compared with the current configuration</h2>
${factList(facts)}
${section('Newly denied', newlyDenied)}
${section('Newly admitted', newlyAdmitted)}`;
}

function readingHtml(reading: LogReading): string {
  const { fromMs, toMs, lines, unreadable, examples, formats } = reading;
  const when =
    fromMs === undefined || toMs === undefined ? '' : `, from ${moment(fromMs)} to ${moment(toMs)}`;
  const names = [...formats].map(([log, format]) => `${log} (${format})`).join(', ');
  const text = `<p>${escaped(`${count(lines)} lines of ${names}${when}`)}</p>`;
  if (unreadable === 0) return text;
  const shown = examples.map(({ log, number, text: line }) => `${log}:${number}: ${line}`).join('\n');
  return `${text}
<p>${count(unreadable)} lines (${share(unreadable, lines)}) cannot be read, such as:</p>
<pre>${escaped(shown)}</pre>`;
}

function factList(facts: readonly Fact[]): string {
  return `<dl>${facts.map(([name, value]) => `<div><dt>${escaped(name)}</dt><dd>${escaped(value)}</dd></div>`).join('')}</dl>`;
}

const WIDTH = 960;
const HEIGHT = 200;
const BARS = 240;

/** A bar per slice, or for as many of them as fit. */
function timelinePlot(tally: DenialTally): string {
  const bars = gathered(tally.timeline().slices);
  if (bars.length === 0) return '<p>No requests.</p>';
  const most = Math.max(...bars.map(({ requests }) => requests));
  const width = WIDTH / bars.length;
  const drawn = bars.map(({ fromMs, requests, denied, wouldDeny }, at) => {
    const box = (kind: string, from: number, amount: number): string => {
      const height = (HEIGHT * amount) / most;
      const top = HEIGHT - (HEIGHT * (from + amount)) / most;
      return amount === 0
        ? ''
        : `<rect class="${kind}" x="${round(at * width)}" y="${round(top)}" width="${round(width * 0.9)}" height="${round(height)}"/>`;
    };
    const title = `${moment(fromMs)}: ${count(requests)} requests, ${count(denied)} denied, ${count(wouldDeny)} in shadow mode`;
    const admitted = requests - denied - wouldDeny;
    return `<g><title>${escaped(title)}</title>${box('denied', 0, denied)}${box('shadow', denied, wouldDeny)}${box('admitted', denied + wouldDeny, admitted)}</g>`;
  });
  const [first, last] = [bars[0]?.fromMs ?? 0, bars.at(-1)?.fromMs ?? 0];
  return `<figure><svg viewBox="0 0 ${WIDTH} ${HEIGHT + 24}" role="img" aria-label="Requests over time: denied, in shadow mode, admitted">
${drawn.join('\n')}
<text x="0" y="${HEIGHT + 18}">${moment(first)}</text><text x="${WIDTH}" y="${HEIGHT + 18}" text-anchor="end">${moment(last)}</text>
<text x="4" y="14">${count(most)}</text>
</svg><figcaption><span class="key denied"></span>denied <span class="key shadow"></span>in shadow mode <span class="key admitted"></span>admitted</figcaption></figure>`;
}

/** Neighbours together, where there are more than can be drawn. */
function gathered(slices: readonly TimeSlice[]): readonly TimeSlice[] {
  const each = Math.ceil(slices.length / BARS);
  const bars: TimeSlice[] = [];
  for (let at = 0; at < slices.length; at += each) {
    const bar: TimeSlice = { fromMs: slices[at]?.fromMs ?? 0, requests: 0, denied: 0, wouldDeny: 0 };
    for (const { requests, denied, wouldDeny } of slices.slice(at, at + each)) {
      bar.requests += requests;
      bar.denied += denied;
      bar.wouldDeny += wouldDeny;
    }
    bars.push(bar);
  }
  return bars;
}

/** A table with a bar in each row. */
function keysPlot(tally: DenialTally): string {
  const keys = tally.deniedKeys(TOP_KEYS);
  const most = keys[0]?.denied ?? 1;
  const rows = keys.map(
    ({ key, policy, denied }) =>
      `<tr><td><code>${escaped(shownKey(key))}</code></td><td>${escaped(policy)}</td><td class="number">${count(denied)}</td><td><svg viewBox="0 0 100 8" preserveAspectRatio="none" class="bar" aria-hidden="true"><rect class="denied" width="${round((100 * denied) / most)}" height="8"/></svg></td></tr>`,
  );
  const more = tally.deniedKeyCount - keys.length;
  return `<table><thead><tr><th>key</th><th>policy</th><th>denied</th><th></th></tr></thead><tbody>
${rows.join('\n')}
</tbody></table>${more > 0 ? `<p>and ${count(more)} more</p>` : ''}`;
}

const NUMBER = /^[\d,.%]+$/;

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cell = (text: string): string =>
    NUMBER.test(text) ? `<td class="number">${text}</td>` : `<td>${escaped(text)}</td>`;
  const body = rows.map((row) => `<tr>${row.map(cell).join('')}</tr>`).join('\n');
  return `<table><thead><tr>${head.map((name) => `<th>${escaped(name)}</th>`).join('')}</tr></thead><tbody>\n${body}\n</tbody></table>`;
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
:root { color-scheme: light dark; --denied: #c62828; --shadow: #b26a00; --admitted: #5b8def; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
dl { display: flex; flex-wrap: wrap; gap: 1rem 3rem; } dt { font-size: .85em; opacity: .75; } dd { margin: 0; font-size: 1.4em; }
figure { margin: 0; } svg { width: 100%; height: auto; } svg text { fill: currentColor; font-size: 12px; } svg.bar { height: 8px; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
.number { text-align: right; font-variant-numeric: tabular-nums; } pre { overflow: auto; }
.denied { fill: var(--denied); background: var(--denied); } .shadow { fill: var(--shadow); background: var(--shadow); }
.admitted { fill: var(--admitted); background: var(--admitted); } .key { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em; }
`;
