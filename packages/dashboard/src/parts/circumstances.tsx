import type { VNode } from 'preact';

/** Until when something holds, and why. */
export interface Circumstances {
  readonly expiresIn: string;
  readonly note: string;
}

export const NO_CIRCUMSTANCES: Circumstances = { expiresIn: '', note: '' };

const LENGTHS = [
  { value: '', words: 'until removed' },
  { value: '15m', words: '15 minutes' },
  { value: '1h', words: '1 hour' },
  { value: '1d', words: '1 day' },
  { value: '7d', words: '7 days' },
  { value: '30d', words: '30 days' },
];

interface CircumstanceFieldsProps {
  readonly value: Circumstances;
  readonly change: (value: Circumstances) => void;
}

export function CircumstanceFields({ value, change }: CircumstanceFieldsProps): VNode {
  return (
    <div class="row">
      <label class="short">
        for how long
        <select
          value={value.expiresIn}
          onChange={({ currentTarget }) => change({ ...value, expiresIn: currentTarget.value })}
        >
          {LENGTHS.map(({ value: length, words }) => (
            <option key={length} value={length}>
              {words}
            </option>
          ))}
        </select>
      </label>
      <label class="long">
        note, for those who find it later
        <input
          value={value.note}
          maxLength={200}
          onInput={({ currentTarget }) => change({ ...value, note: currentTarget.value })}
        />
      </label>
    </div>
  );
}

/** As the gateway takes them. */
export function asBody({ expiresIn, note }: Circumstances): object {
  return {
    ...(expiresIn === '' ? {} : { expires_in: expiresIn }),
    ...(note.trim() === '' ? {} : { note: note.trim() }),
    by: 'dashboard',
  };
}
