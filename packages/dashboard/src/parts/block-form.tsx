import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { asBody, CircumstanceFields, NO_CIRCUMSTANCES } from './circumstances.tsx';

interface BlockFormProps {
  readonly save: (about: object) => void;
  readonly cancel: () => void;
}

/** Denies everything to a key, once somebody has said that they mean it. */
export function BlockForm({ save, cancel }: BlockFormProps): VNode {
  const [about, setAbout] = useState(NO_CIRCUMSTANCES);
  return (
    <form
      class="form override"
      onSubmit={(event) => {
        event.preventDefault();
        save(asBody(about));
      }}
    >
      <CircumstanceFields value={about} change={setAbout} />
      <div class="actions">
        <button class="danger" type="submit">
          Deny everything to it
        </button>
        <button type="button" onClick={cancel}>
          Cancel
        </button>
      </div>
    </form>
  );
}
