/** What `init` writes when no file is named. */
export const DEFAULT_FILE = 'spillgate.yaml';
