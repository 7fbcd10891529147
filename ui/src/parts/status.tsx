import type { ReactNode } from "react";
import { lookOf } from "./status-look.ts";

/** Where something stands, as a sign, a word and a colour. */
export function Status({ state, children }: { state: string; children?: ReactNode }): ReactNode {
  const { tone, sign, word } = lookOf(state);
  return (
    <span className={`status tone-${tone}`} data-state={state}>
      <span aria-hidden="true" className="status-sign">
        {sign}
      </span>
      {children ?? word}
    </span>
  );
}
