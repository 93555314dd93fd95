import { describe } from 'vitest';
import type { Framework } from './running-server.ts';
import { abortTests } from './suite/abort.ts';
import { admissionTests } from './suite/admission.ts';
import { answerTests } from './suite/answers.ts';
import { concurrencyTests } from './suite/concurrency.ts';
import { identityTests } from './suite/identity.ts';
import { outageTests } from './suite/outage.ts';
import { proxyTests } from './suite/proxies.ts';
import { settlingTests } from './suite/settling.ts';
import { wireTests } from './suite/wire.ts';

/** What every adapter promises, on a real server with real requests. */
export function describeAdapter<Request>(framework: Framework<Request>): void {
  describe(`rateLimit() for ${framework.name}`, () => {
    admissionTests(framework);
    answerTests(framework);
    identityTests(framework);
    proxyTests(framework);
    outageTests(framework);
    abortTests(framework);
    concurrencyTests(framework);
    settlingTests(framework);
    wireTests(framework);
  });
}
