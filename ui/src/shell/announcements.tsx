import { type ReactNode, useEffect, useState } from "react";
import { onAnnounce } from "../parts/announce.ts";

/** How long something that was said stays to be read. */
const SHOWN_MS = 6_000;

/** What was just done, for a while, at the foot of the page. */
export function Announcements(): ReactNode {
  // The number tells what is said twice from what was said once.
  const [{ message, number }, say] = useState({ message: "", number: 0 });
  useEffect(
    () => onAnnounce((said) => say((last) => ({ message: said, number: last.number + 1 }))),
    [],
  );
  useEffect(() => {
    const timer = setTimeout(() => say((last) => ({ ...last, message: "" })), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [number]);
  return (
    <div role="status" className={message === "" ? "visually-hidden" : "announcement"}>
      <span key={number}>{message}</span>
    </div>
  );
}
