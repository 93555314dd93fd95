// One server in a process of its own: node server-child.js <number of the candidate> <port of Redis>
import { CANDIDATES } from './candidates.ts';
import { cpuUsWithoutSockets } from './without-sockets.ts';

const [number = '', redisPort = ''] = process.argv.slice(2);
const candidate = CANDIDATES[Number(number)];
if (candidate === undefined) throw new RangeError(`there is no candidate ${number}`);

process.on('disconnect', () => process.exit());
const { port, handle } = await candidate.listen(Number(redisPort));
process.on('message', (budgetMs) => void answer(Number(budgetMs)));
process.send?.({ port });

/** How much processor time was used so far; or, given milliseconds, how much a request takes without sockets. */
async function answer(budgetMs: number): Promise<void> {
  const { user, system } = process.cpuUsage();
  process.send?.({ cpuUs: budgetMs === 0 ? user + system : await cpuUsWithoutSockets(handle, budgetMs) });
}
