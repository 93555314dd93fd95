import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { PolicyList } from 'spillgate-gateway';

interface OverrideFormProps {
  readonly policy: PolicyList['policies'][number];
  /** What the key was given so far. */
  readonly given: object;
  readonly save: (numbers: object) => void;
  readonly cancel: () => void;
}

/** The numbers of a policy for one key; those left as they are stay those of the configuration. */
export function OverrideForm({ policy, given, save, cancel }: OverrideFormProps): VNode {
  const usual = Object.entries(policy.numbers);
  const [texts, setTexts] = useState<ReadonlyMap<string, string>>(
    new Map(Object.entries(given).map(([name, value]) => [name, String(value)])),
  );
  const [expiresIn, setExpiresIn] = useState('');
  const [note, setNote] = useState('');
  const numbers = Object.fromEntries(
    usual
      .map(([name, value]) => [name, valueOf(texts.get(name) ?? '', value)] as const)
      .filter(([, value]) => value !== undefined),
  );
  return (
    <form
      class="form override"
      onSubmit={(event) => {
        event.preventDefault();
        const circumstances = { expires_in: expiresIn.trim(), note: note.trim() };
        const told = Object.entries(circumstances).filter(([, text]) => text !== '');
        save({ ...numbers, ...Object.fromEntries(told), by: 'dashboard' });
      }}
    >
      <div class="row">
        {usual.map(([name, value]) => (
          <label key={name} class="short">
            {name.replaceAll('_', ' ')}
            <input
              value={texts.get(name) ?? ''}
              placeholder={String(value)}
              onInput={({ currentTarget }) => setTexts(new Map([...texts, [name, currentTarget.value]]))}
            />
          </label>
        ))}
      </div>
      <div class="row">
        <label class="short">
          for how long
          <input
            value={expiresIn}
            placeholder="until removed"
            onInput={({ currentTarget }) => setExpiresIn(currentTarget.value)}
          />
        </label>
        <label class="long">
          note
          <input value={note} onInput={({ currentTarget }) => setNote(currentTarget.value)} />
        </label>
      </div>
      <div class="actions">
        <button class="primary" type="submit" disabled={Object.keys(numbers).length === 0}>
          Save
        </button>
        <button type="button" onClick={cancel}>
          Cancel
        </button>
        <span class="muted">Fields left empty keep the numbers of the configuration.</span>
      </div>
    </form>
  );
}

/** A number where the policy has one, else the text; the gateway says what does not fit. */
function valueOf(text: string, usual: unknown): number | string | undefined {
  const trimmed = text.trim();
  if (trimmed === '') return undefined;
  return typeof usual === 'number' && /^\d+$/.test(trimmed) ? Number(trimmed) : trimmed;
}
