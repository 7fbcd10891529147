import { createContext, useContext } from "react";
import type { AnswerOf } from "../../../src/work/operations.ts";
import type { Verb } from "../../../src/work/operation.ts";

/** Who looks at the page, and what they may do. */
export type Session = AnswerOf<"getSession">;

/** The session that the page is shown for. */
export const SessionContext = createContext<Session | null>(null);

/** Who looks at the page. */
export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === null) throw new Error("There is no session around this part of the page.");
  return session;
}

/** Why a button is no use to whoever looks, or null when they may press it. */
export function useLacks(verb: Verb): string | null {
  const { verbs, principal } = useSession();
  if (verbs.includes(verb)) return null;
  return `Your token (${principal ?? "none"}) may ${verbs.join(", ")}, and this needs the right to ${verb}.`;
}
