import type { ReactNode } from "react";
import { Link } from "wouter";
import type { Refusal } from "../api/call.ts";
import type { Tone } from "./status-look.ts";
import { visibleText } from "./visible-text.ts";

/** Something that whoever looks should know. */
export function Notice({ tone, children }: { tone: Tone; children: ReactNode }): ReactNode {
  return (
    <div className={`notice tone-${tone}`} role={tone === "bad" ? "alert" : "note"}>
      {children}
    </div>
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
    <Empty title={`No ${noun} fits these filters.`}>
      <p>
        Leave one of them out, or <Link href={all}>see all {noun}s</Link>.
      </p>
    </Empty>
  );
}
