import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect } from "react";
import { onSignedOut } from "../api/call.ts";
import type { LiveUpdates } from "../api/live-updates.ts";
import { SessionContext } from "../api/session.ts";
import { useAnswer } from "../api/use-answer.ts";
import { Loaded } from "../parts/loaded.tsx";
import { Announcements } from "./announcements.tsx";
import { Frame } from "./frame.tsx";
import { Routes, usePageLoading } from "./routes.tsx";
import { SignIn } from "./sign-in.tsx";

/** The whole page: who looks, what surrounds it, and the part that the address names. */
export function App({ live }: { live: LiveUpdates }): ReactNode {
  usePageLoading();
  const session = useAnswer("getSession", {});
  const client = useQueryClient();
  useEffect(
    () => onSignedOut(() => void client.invalidateQueries({ queryKey: ["getSession"] })),
    [client],
  );
  const isSignedIn = session.data?.signed_in === true;
  useEffect(() => (isSignedIn ? live.start() : undefined), [isSignedIn, live]);
  useEffect(() => {
    // Whoever signs in next may not see what was seen before.
    if (!isSignedIn)
      client.removeQueries({ predicate: ({ queryKey: [name] }) => name !== "getSession" });
  }, [isSignedIn, client]);
  return (
    <>
      <Loaded answer={session}>
        {(known) =>
          known.signed_in ? (
            <SessionContext value={known}>
              <Frame live={live}>
                <Routes />
              </Frame>
            </SessionContext>
          ) : (
            <SignIn session={known} />
          )
        }
      </Loaded>
      <Announcements />
    </>
  );
}
