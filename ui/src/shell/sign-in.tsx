import { type FormEvent, type ReactNode, useEffect, useState } from "react";
import type { Session } from "../api/session.ts";
import { useChange } from "../api/use-answer.ts";
import { Field } from "../parts/field.tsx";
import { Refused } from "../parts/notice.tsx";

/** Asks for a token, where the server needs one. */
export function SignIn({ session }: { session: Session }): ReactNode {
  const [token, setToken] = useState("");
  const signIn = useChange("signIn");
  useEffect(() => {
    document.title = "Sign in · Pawl";
  }, []);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    signIn.mutate({ body: { token } });
  };
  return (
    <main className="sign-in">
      <form className="card stack" onSubmit={submit}>
        <h1>
          <img src="/pawl.svg" alt="" width="28" height="28" /> Sign in to Pawl
        </h1>
        <p>
          This server ({session.version}) needs a token. Create one on its machine with{" "}
          <code>pawl token create NAME --verbs read,write</code>.
        </p>
        <Field label="Token">
          {(control) => (
            <input
              {...control}
              type="password"
              autoComplete="current-password"
              required
              value={token}
              onChange={(event) => setToken(event.target.value)}
            />
          )}
        </Field>
        {signIn.error !== null && <Refused refusal={signIn.error} />}
        <button type="submit" className="button button-primary" disabled={signIn.isPending}>
          Sign in
        </button>
        <p className="soft">
          The token is kept in a cookie that scripts cannot read, until you sign out or close the
          browser.
        </p>
      </form>
    </main>
  );
}
