// One server in a process of its own: node server-child.js <number of the candidate> <port of Redis>
import { CANDIDATES } from './candidates.ts';

const [number = '', redisPort = ''] = process.argv.slice(2);
const candidate = CANDIDATES[Number(number)];
if (candidate === undefined) throw new RangeError(`there is no candidate ${number}`);

process.on('disconnect', () => process.exit());
process.on('message', () => {
  const { user, system } = process.cpuUsage();
  process.send?.({ cpuUs: user + system });
});
process.send?.({ port: await candidate.listen(Number(redisPort)) });
