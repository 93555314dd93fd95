/** Progress goes to stderr: stdout carries the report and nothing else. */
export function progress(text: string): void {
  const seconds = performance.now() / 1000;
  process.stderr.write(`[${seconds.toFixed(0).padStart(4)} s] ${text}\n`);
}
