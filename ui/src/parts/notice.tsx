import type { ReactNode } from "react";
import { Link } from "wouter";
import type { Refusal } from "../api/call.ts";
import type { Tone } from "./status-look.ts";
import { Time } from "./time.tsx";
import { visibleText } from "./visible-text.ts";

/** Something that whoever looks should know. */
export function Notice({ tone, children }: { tone: Tone; children: ReactNode }): ReactNode {
  return (
    <div className={`notice tone-${tone}`} role={tone === "bad" ? "alert" : "note"}>
      {children}
    </div>
  );
}

/** What kind of error it is; null for what the user's own code threw, where the message says it all. */
export function kindOfError({ class: kind }: { class: string }): string | null {
  return kind === "user" ? null : kind;
}

/** An error as text: its message, behind its kind where that says more. */
export function errorText(error: { class: string; message: string }): string {
  const kind = kindOfError(error);
  return visibleText(kind === null ? error.message : `${kind}: ${error.message}`);
}

/** What went wrong in somebody's code or database, and when where that is known. */
export function ErrorText(props: {
  error: { class: string; message: string };
  at?: string | null;
}): ReactNode {
  const { error, at } = props;
  const kind = kindOfError(error);
  return (
    <>
      {kind !== null && (
        <>
          <strong>{visibleText(kind)}</strong>:{" "}
        </>
      )}
      {visibleText(error.message)}
      {at !== undefined && (
        <>
          {" "}
          (<Time at={at} />)
        </>
      )}
    </>
  );
}

/** Says why work on shards does not start, where no worker polls for it. */
export function LacksShardWorker(): ReactNode {
  return (
    <Notice tone="warn">
      <p>
        No worker with these shards has polled for work in the last minute. Start one with{" "}
        <code>pawl start</code> or <code>pawl worker</code> where it can connect to the shards.
      </p>
    </Notice>
  );
}

/** What went wrong, in the server's words, with its code. */
export function Refused({ refusal, again }: { refusal: Refusal; again?: () => void }): ReactNode {
  return (
    <Notice tone="bad">
      <p>
        {visibleText(refusal.message)} <code>{refusal.code}</code>
      </p>
      {refusal.fields.length > 0 && (
        <ul className="field-problems">
          {refusal.fields.map(({ field, message }) => (
            <li key={`${field} ${message}`}>
              <code>{visibleText(field)}</code> {visibleText(message)}
            </li>
          ))}
        </ul>
      )}
      {again !== undefined && (
        <button type="button" className="button" onClick={again}>
          Try again
        </button>
      )}
    </Notice>
  );
}

/** What to do where there is nothing yet. */
export function Empty({ title, children }: { title: string; children?: ReactNode }): ReactNode {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children}
    </div>
  );
}

/** What to do where filters leave nothing; `all` is where there are none. */
export function NothingFits({ noun, all }: { noun: string; all: string }): ReactNode {
  return (
    <Empty title={`No ${noun} matches these filters.`}>
      <p>
        Remove a filter, or <Link href={all}>see all {noun}s</Link>.
      </p>
    </Empty>
  );
}
