import type { Goal, Report } from './suite.ts';
import { renderTable, type Format } from './table.ts';

export function renderReport(report: Report, format: Format): string {
  const bullet = format === 'markdown' ? '- ' : '  ';
  return [
    heading(report.title, format),
    report.facts.map((fact) => `${bullet}${fact}`).join('\n'),
    ...report.tables.map((table) => renderTable(table, format)),
    heading('Goals', format),
    report.goals.map((goal) => renderGoal(goal, bullet)).join('\n'),
  ].join('\n\n');
}

function heading(text: string, format: Format): string {
  return format === 'markdown' ? `## ${text}` : `${text}\n${'='.repeat(text.length)}`;
}

function renderGoal({ text, passed, detail }: Goal, bullet: string): string {
  return `${bullet}${passed ? 'PASS' : 'FAIL'}  ${text}: ${detail}`;
}
