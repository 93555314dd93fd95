/** What the library says, with the name of the setting where it names an option of its own. */
export function inSettings(message: string): string {
  return message.replaceAll(/\bdeadlineMs\b/g, 'rate_limit.deadline');
}
