import { describeAdapter } from './describe-adapter.ts';
import { nodeFramework } from './node-framework.ts';

describeAdapter(nodeFramework);
