import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { call } from "../api/call.ts";
import { useSession } from "../api/session.ts";
import { applyTheme, storedTheme, type Theme } from "./theme.ts";

const THEMES: readonly (readonly [Theme, string])[] = [
  ["auto", "Theme: auto"],
  ["light", "Theme: light"],
  ["dark", "Theme: dark"],
];

/** Who looks, how the page looks, and the way out. */
export function Account(): ReactNode {
  const { token_required, principal } = useSession();
  const [theme, setTheme] = useState(storedTheme);
  const client = useQueryClient();
  const signOut = useMutation({
    mutationFn: () => call("signOut", {}),
    // All else would only be refused from now on.
    onSettled: () => client.invalidateQueries({ queryKey: ["getSession"] }),
  });
  return (
    <div className="account">
      <select
        aria-label="Theme"
        value={theme}
        onChange={(event) => {
          const chosen = event.target.value as Theme;
          applyTheme(chosen);
          setTheme(chosen);
        }}
      >
        {THEMES.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
      {token_required && (
        <>
          <span className="soft account-name">{principal}</span>
          <button type="button" className="button" onClick={() => signOut.mutate()}>
            Sign out
          </button>
        </>
      )}
    </div>
  );
}
