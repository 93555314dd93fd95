import { progress } from '../frame/progress.ts';
import { AskerProcess } from './asker-process.ts';
import { LOG_CANDIDATES } from './log-candidates.ts';
import { measureScenario, type Measured, type Opened, type Run } from './scenario.ts';

const IN_FLIGHT = [1, 16, 64] as const;

export async function measureLog(run: Run): Promise<readonly Measured[]> {
  const opened: Opened[] = [];
  for (const candidate of LOG_CANDIDATES) {
    const asker = await AskerProcess.open({ kind: 'candidate', id: candidate.id }, run.server.port);
    opened.push({ candidate, asker });
  }
  const measured: Measured[] = [];
  for (const inFlight of IN_FLIGHT) {
    progress(`sliding window log, 1,000 keys, ${inFlight} in flight: ${run.plan.rounds} rounds`);
    const traffic = { workload: 'log', arrival: 'steady', inFlight } as const;
    measured.push(await measureScenario(traffic, { opened, ceilings: [] }, run));
  }
  await Promise.all(opened.map(({ asker }) => asker.close()));
  return measured;
}
