import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { PolicyList } from 'spillgate-gateway';
import { asBody, CircumstanceFields, NO_CIRCUMSTANCES } from './circumstances.tsx';

interface OverrideFormProps {
  readonly policy: PolicyList['policies'][number];
  /** What the key was given so far. */
  readonly given: object;
  readonly save: (numbers: object) => void;
  readonly cancel: () => void;
}

/** What the numbers of policies mean, in a few words. */
const HINTS: ReadonlyMap<string, string> = new Map([
  ['average', 'come back in each period'],
  ['period', 'such as 1s, 1m, 1h'],
  ['burst', 'the most at once'],
  ['quota', 'in each window'],
  ['window', 'such as 1m, 1h, 1d'],
]);

/** The numbers of a policy for one key; those left as they are stay those of the configuration. */
export function OverrideForm({ policy, given, save, cancel }: OverrideFormProps): VNode {
  const usual = Object.entries(policy.numbers);
  const [texts, setTexts] = useState<ReadonlyMap<string, string>>(
    new Map([...usual, ...Object.entries(given)].map(([name, value]) => [name, String(value)])),
  );
  const [about, setAbout] = useState(NO_CIRCUMSTANCES);
  const numbers = Object.fromEntries(
    usual
      .filter(([name, value]) => (texts.get(name) ?? '').trim() !== String(value))
      .map(([name, value]) => [name, valueOf(texts.get(name) ?? '', value)] as const)
      .filter(([, value]) => value !== undefined),
  );
  return (
    <form
      class="form override"
      onSubmit={(event) => {
        event.preventDefault();
        save({ ...numbers, ...asBody(about) });
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
            <small>{HINTS.get(name) ?? ''}</small>
          </label>
        ))}
      </div>
      <CircumstanceFields value={about} change={setAbout} />
      <div class="actions">
        <button class="primary" type="submit" disabled={Object.keys(numbers).length === 0}>
          Save
        </button>
        <button type="button" onClick={cancel}>
          Cancel
        </button>
        <span class="muted">For this key only. What it has used stays used.</span>
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
