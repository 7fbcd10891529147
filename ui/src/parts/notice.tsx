import type { ReactNode } from "react";
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
