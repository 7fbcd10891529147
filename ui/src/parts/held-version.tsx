import { type ReactNode, type RefObject, useLayoutEffect, useState } from "react";
import { Notice } from "./notice.tsx";

/**
 * Keeps the version that was shown when a dialog was opened, as what is decided in it was decided by
 * that; says so when it has moved on since. It belongs into the consequence of an action.
 */
export function HeldVersion(props: {
  version: number;
  held: RefObject<number | null>;
  /** Where it stands now, in a word or two. */
  now: string;
}): ReactNode {
  const { version, held, now } = props;
  const [shown] = useState(version);
  useLayoutEffect(() => {
    held.current = shown;
  }, [held, shown]);
  if (shown === version) return null;
  return (
    <Notice tone="warn">
      <p>
        It has moved on since this was opened, and is <strong>{now}</strong> now (version {version},
        not {shown}). Go back and look again: this will be refused.
      </p>
    </Notice>
  );
}
