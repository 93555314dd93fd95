import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { signIn } from '../gateway-api.ts';
import { messageOf } from './asked.tsx';

/** Where a token is configured, nothing is shown without it. */
export function SignIn(): VNode {
  const [token, setToken] = useState('');
  const [said, setSaid] = useState('');
  return (
    <main class="sign-in">
      <form
        class="card form"
        onSubmit={(event) => {
          event.preventDefault();
          signIn(token).catch((failure: unknown) => setSaid(messageOf(failure)));
        }}
      >
        <h1>Spillgate</h1>
        <label>
          Token
          <input
            type="password"
            autocomplete="current-password"
            value={token}
            onInput={({ currentTarget }) => setToken(currentTarget.value)}
          />
        </label>
        <p class="muted">The setting admin.token of this gateway.</p>
        <button class="primary" type="submit">
          Sign in
        </button>
        <p role="alert">{said}</p>
      </form>
    </main>
  );
}
