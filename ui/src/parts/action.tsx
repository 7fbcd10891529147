import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import type { Verb } from "../../../src/work/operation.ts";
import type { Refusal } from "../api/call.ts";
import { useLacks } from "../api/session.ts";
import { announce } from "./announce.ts";
import { Field } from "./field.tsx";
import { Notice, Refused } from "./notice.tsx";
import { useOpening } from "./opening.ts";

/** Something that can be done, and what comes of it. */
export type ActionProps = {
  /** What the button says: `Pause`. */
  label: string;
  /** What happens when it is done, in words, before it is done. */
  consequence: ReactNode;
  /**
   * Does it; `reason` is empty where none is asked for or given. `version` is the one that was shown
   * when the dialog opened, to be sent as the expected one.
   */
  run: (reason: string, version: number | undefined) => Promise<{ message: string }>;
  /** The version of what is shown; what changes under an open dialog is then refused by the server. */
  version?: number | undefined;
  /** Called when it was done, as to go elsewhere. */
  onDone?: (() => void) | undefined;
  tone?: "plain" | "primary" | "danger";
  /** Whether to ask why, for the record. */
  asksReason?: boolean;
  /** The right it needs. */
  verb?: Verb;
  /** Why it makes no sense now; the button stays, and says so. */
  unavailable?: string | null | undefined;
  /** More that is asked for, between the consequence and the buttons. */
  children?: ReactNode;
};

/** A button that says what it will do before it does it. A refusal is shown where it was asked for. */
export function Action(props: ActionProps): ReactNode {
  const { label, tone = "plain", unavailable = null } = props;
  const opening = useOpening();
  const lacks = useLacks(props.verb ?? "write");
  const why = lacks ?? unavailable;
  const whyId = useId();
  return (
    <>
      <button
        type="button"
        className={`button button-${tone}`}
        aria-disabled={why !== null}
        aria-describedby={why === null ? undefined : whyId}
        title={why ?? undefined}
        onClick={() => {
          if (why === null) opening.open();
        }}
      >
        {label}
      </button>
      {why !== null && (
        <span id={whyId} className="visually-hidden">
          {why}
        </span>
      )}
      {opening.key !== null && <ActionDialog key={opening.key} {...props} close={opening.close} />}
    </>
  );
}

function ActionDialog(props: ActionProps & { close: () => void }): ReactNode {
  const { label, consequence, run, onDone, tone = "plain", asksReason = false, close } = props;
  const [reason, setReason] = useState("");
  const [version] = useState(props.version);
  const client = useQueryClient();
  const titleId = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const change = useMutation<{ message: string }, Refusal, string>({
    mutationFn: (said) => run(said, version),
    onSuccess: ({ message }) => {
      announce(message);
      shut();
      onDone?.();
    },
    onSettled: () => client.invalidateQueries(),
  });
  // Closed by itself, the dialog gives the focus back to the button that opened it.
  const shut = (): void => dialog.current?.close();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    change.mutate(reason.trim());
  };
  return (
    <dialog
      ref={dialog}
      aria-labelledby={titleId}
      className="dialog"
      onClose={close}
      onCancel={(event) => {
        event.preventDefault();
        if (!change.isPending) shut();
      }}
    >
      <form onSubmit={submit}>
        <h2 id={titleId}>{label}</h2>
        <div className="dialog-consequence">{consequence}</div>
        {props.children}
        {asksReason && (
          <Field label="Reason (for the record)">
            {(control) => (
              <input
                {...control}
                value={reason}
                maxLength={1_000}
                onChange={(event) => setReason(event.target.value)}
              />
            )}
          </Field>
        )}
        {props.version !== version && change.error === null && !change.isPending && (
          <Notice tone="warn">
            This has changed since you opened it (version {version}, now {props.version}) and will
            be refused. Go back and review it.
          </Notice>
        )}
        {change.error !== null && <Refused refusal={change.error} />}
        {change.error?.code === "STATE_VERSION_MISMATCH" && (
          <button type="button" className="button" onClick={shut}>
            Review
          </button>
        )}
        <div className="dialog-buttons">
          <button type="button" className="button" onClick={shut} disabled={change.isPending}>
            Back
          </button>
          <button
            type="submit"
            className={`button button-${tone === "danger" ? "danger" : "primary"}`}
            disabled={change.isPending}
          >
            {change.isPending ? "Sending…" : label}
          </button>
        </div>
      </form>
    </dialog>
  );
}
