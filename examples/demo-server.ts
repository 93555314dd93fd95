// The demo on 127.0.0.1:8080, or on the port that PORT names. What it does: demo/create-demo-server.ts.
import { createDemoServer } from './demo/create-demo-server.ts';
import { guide } from './demo/guide.ts';

const port = readPort(process.env['PORT']);
const server = createDemoServer();

server.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EADDRINUSE') {
    stop(`Port ${port} is taken. Stop what runs there, or let the demo find a free port: PORT=0`);
  }
  stop(`The demo cannot listen on port ${port}: ${error.message}. Choose another: PORT=0`);
});

server.listen(port, '127.0.0.1', () => {
  const address = server.address();
  console.log(guide(typeof address === 'object' && address !== null ? address.port : port));
  console.log('Stop it with Ctrl-C.');
});

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    // Requests in flight get their answer; connections kept alive for later ones would only hold the process up.
    server.close(() => console.log(`Closed on ${signal}.`));
    server.closeIdleConnections();
  });
}

function readPort(text = ''): number {
  if (text === '') return 8080;
  const chosen = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (chosen <= 65_535) return chosen;
  return stop(`PORT is ${JSON.stringify(text)}; expected 0 (any free port) to 65535, such as PORT=8081`);
}

function stop(reason: string): never {
  console.error(reason);
  process.exit(1);
}
