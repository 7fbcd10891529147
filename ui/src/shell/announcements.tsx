import { type ReactNode, useEffect, useState } from "react";
import { onAnnounce } from "../parts/announce.ts";

/** How long something that was said stays to be read. */
const SHOWN_MS = 6_000;

/** What was just done, for a while, at the foot of the page. */
export function Announcements(): ReactNode {
  const [message, setMessage] = useState("");
  useEffect(() => onAnnounce(setMessage), []);
  useEffect(() => {
    if (message === "") return undefined;
    const timer = setTimeout(() => setMessage(""), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [message]);
  return (
    <div role="status" className={message === "" ? "visually-hidden" : "announcement"}>
      {message}
    </div>
  );
}
