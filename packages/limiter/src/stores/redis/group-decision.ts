import type { StoreVerdict } from '../store.ts';
import type { WaitingDecision } from './batch-lane.ts';
import type { Group, Whole } from './composed-check.ts';
import type { Answer, Question, Verb } from './protocol.ts';

/** Limits that one script call can decide together, and who waits for that. */
export interface AskedGroup {
  readonly verb: Verb;
  readonly group: Group;
  readonly whole: Whole;
  readonly resolve: (verdicts: readonly StoreVerdict[] | Promise<readonly StoreVerdict[]>) => void;
  readonly reject: (error: unknown) => void;
}

export interface GroupAnswers {
  readonly decided: (asked: AskedGroup, question: Question, answer: Answer) => void;
  /** What decides instead, if anything can. */
  readonly failed: (asked: AskedGroup, error: unknown) => Promise<readonly StoreVerdict[]> | undefined;
}

/** One object per decision rather than a chain of promises: thousands may be under way. */
export class GroupDecision implements WaitingDecision {
  readonly question: Question;
  private readonly asked: AskedGroup;
  private readonly answers: GroupAnswers;

  constructor(answers: GroupAnswers, asked: AskedGroup) {
    const { verb, group, whole } = asked;
    this.question = { verb, limits: group.limits, cost: whole.cost, keys: group.keys, caller: whole.caller };
    this.asked = asked;
    this.answers = answers;
  }

  resolve(answer: Answer): void {
    try {
      this.answers.decided(this.asked, this.question, answer);
      this.asked.resolve(answer.verdicts);
    } catch (error) {
      this.asked.reject(error);
    }
  }

  reject(error: unknown): void {
    try {
      const instead = this.answers.failed(this.asked, error);
      if (instead === undefined) this.asked.reject(error);
      else this.asked.resolve(instead);
    } catch (failure) {
      this.asked.reject(failure);
    }
  }
}
