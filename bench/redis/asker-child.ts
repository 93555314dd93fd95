// One contender in a process of its own: node asker-child.js <Opening as JSON> <port of Redis>
import { collectYoungGarbage } from '../frame/machine.ts';
import type { AskedSlice, Opening } from './asker-process.ts';
import { CANDIDATES } from './candidates.ts';
import { Load, type Answered } from './load.ts';
import { LOG_CANDIDATES } from './log-candidates.ts';
import { keyOrder, openKeys } from './key-contenders.ts';
import { TurnLoad } from './turns.ts';
import { spendOnce } from './workload.ts';
import { openWorkload } from './workloads.ts';

const [opening = '', port = ''] = process.argv.slice(2);
process.on('disconnect', () => process.exit());
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what asker-process.ts passes
const ask = await open(JSON.parse(opening) as Opening, Number(port));
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what asker-process.ts sends
process.on('message', (message) => void answer(message as AskedSlice));
process.send?.('open');

async function answer(slice: AskedSlice): Promise<void> {
  collectYoungGarbage();
  process.send?.(await ask(slice));
}

async function open(opened: Opening, redisPort: number): Promise<(slice: AskedSlice) => Promise<Answered>> {
  if (opened.kind === 'keys') {
    const load = new TurnLoad(openKeys(redisPort, opened.traffic, opened.id), keyOrder(opened.traffic));
    return ({ budgetMs }) => load.run(budgetMs);
  }
  const candidate = [...CANDIDATES, ...LOG_CANDIDATES].find(({ id }) => id === opened.id);
  if (candidate === undefined) throw new RangeError(`there is no candidate ${opened.id}`);
  const subject = await candidate.open(redisPort);
  // A reference answers as expected whatever was asked before, and a log is empty again in a second.
  if (CANDIDATES.includes(candidate) && candidate.role !== 'reference') await spendOnce(subject);
  const load = new Load(subject);
  const workload = openWorkload();
  return ({ workload: name, arrival, inFlight, budgetMs }) =>
    load.run({ workload: workload(name), arrival, inFlight }, budgetMs);
}
