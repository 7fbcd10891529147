import type { ReactNode } from "react";
import { Link } from "wouter";

/** The end of a form on a page of its own: send it, or go back; and why it may not be sent. */
export function FormButtons(props: {
  label: string;
  isPending: boolean;
  /** Why whoever looks may not send it. */
  mayNot: string | null;
  back: string;
  /** More buttons, between sending and going back. */
  children?: ReactNode;
}): ReactNode {
  const { label, isPending, mayNot, back, children } = props;
  return (
    <>
      {mayNot !== null && <p className="field-problem">{mayNot}</p>}
      <div className="row">
        <button
          type="submit"
          className="button button-primary"
          disabled={isPending || mayNot !== null}
        >
          {isPending ? "Sending…" : label}
        </button>
        {children}
        <Link href={back} className="button">
          Back
        </Link>
      </div>
    </>
  );
}
