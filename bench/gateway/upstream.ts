import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { freePort, Program } from './program.ts';
import { isInstalled } from './required-programs.ts';

const PEER = fileURLToPath(new URL('peer-child.js', import.meta.url));

/** Beside its file: the folder is where it puts what it has to write. */
export function nginxCommand(file: string): readonly string[] {
  return ['nginx', '-p', dirname(file), '-c', file];
}

/** What answers behind all proxies: the same bytes, for as little work as possible. */
export async function startUpstream(folder: string, cores: number | string): Promise<Program> {
  const port = await freePort();
  if (!isInstalled('nginx')) {
    return Program.start(port, [process.execPath, PEER, 'upstream', String(port)], cores);
  }
  const file = join(folder, `upstream-${port}`);
  writeFileSync(file, upstreamFile(port));
  return Program.start(port, nginxCommand(file), cores);
}

function upstreamFile(port: number): string {
  return `
daemon off;
master_process off;
pid upstream-${port}.pid;
error_log stderr crit;
events { worker_connections 4096; }
http {
  access_log off;
  keepalive_requests 1000000000;
  server {
    listen 127.0.0.1:${port};
    location / { return 200 "hello, world"; }
  }
}
`;
}
