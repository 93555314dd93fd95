import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { CheckedConfigText } from 'spillgate-gateway';
import { ask } from '../gateway-api.ts';
import { Answered, messageOf, type Asked } from './asked.tsx';
import { Card } from './card.tsx';
import { Differences, Problems } from './config-changes.tsx';

/** What another file would change, before anybody takes it into use. */
export function ConfigCheck(): VNode {
  const [text, setText] = useState('');
  const [asked, setAsked] = useState<Asked<CheckedConfigText> | undefined>();
  const check = (body: object): void => {
    setAsked({ state: 'asking' });
    ask<CheckedConfigText>('POST', '/v1/config/check', body).then(
      (answer) => setAsked({ state: 'answered', answer }),
      (failure: unknown) => setAsked({ state: 'failed', why: messageOf(failure) }),
    );
  };
  return (
    <Card title="What a new file would change" aside={<span class="muted">nothing is taken into use</span>}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          check({ text });
        }}
      >
        <label>
          Text of a new file
          <textarea
            rows={4}
            spellcheck={false}
            placeholder="Paste a whole configuration here, or compare the file as it is on disk now."
            value={text}
            onInput={({ currentTarget }) => setText(currentTarget.value)}
          />
        </label>
        <div class="actions">
          <button class="primary" type="submit" disabled={text.trim() === ''}>
            Check this text
          </button>
          <button type="button" onClick={() => check({})}>
            Compare the file on disk
          </button>
        </div>
      </form>
      <div class="below" aria-live="polite">
        {asked === undefined ? undefined : (
          <Answered asked={asked}>{(answer) => <Outcome answer={answer} />}</Answered>
        )}
      </div>
    </Card>
  );
}

function Outcome({
  answer: { accepted, problems, differences },
}: {
  readonly answer: CheckedConfigText;
}): VNode {
  return (
    <>
      <p class="outcome">
        <span class={`pill ${accepted ? 'allowed' : 'failed'}`}>{accepted ? 'Valid' : 'Refused'}</span>
        {accepted
          ? changesText(differences.total)
          : 'A reload would refuse it, and what is in use would stay.'}
      </p>
      <Problems problems={problems} />
      {differences.total === 0 ? undefined : <Differences differences={differences} />}
    </>
  );
}

function changesText(total: number): string {
  if (total === 0) return 'It means the same as what is in use: nothing would change.';
  return total === 1 ? 'It would change one setting.' : `It would change ${total} settings.`;
}
