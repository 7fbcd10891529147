import type { ReactNode } from "react";
import "./phases.css";
import { Moment } from "./time.tsx";

/** Where a phase is: behind, present, failed in it, still to come, or never come to. */
export type PhasePlace = "done" | "now" | "failed" | "ahead" | "skipped";

/** One of the phases that something goes through. */
export type Phase = {
  name: string;
  text: string;
  place: PhasePlace;
  /** When it was come to, where that is known. */
  at: string | null;
};

const LOOKS = {
  done: { sign: "✓", tone: "good", word: "done" },
  now: { sign: "▶", tone: "busy", word: "now" },
  failed: { sign: "✕", tone: "bad", word: "failed here" },
  ahead: { sign: "·", tone: "wait", word: "to come" },
  skipped: { sign: "–", tone: "wait", word: "not come to" },
} as const;

/** Phases as steps in their order, with the present one marked, also for those who listen. */
export function Phases({ label, phases }: { label: string; phases: readonly Phase[] }): ReactNode {
  return (
    <ol className="phases" aria-label={label}>
      {phases.map(({ name, text, place, at }) => {
        const { sign, tone, word } = LOOKS[place];
        const isHere = place === "now" || place === "failed";
        return (
          <li
            key={name}
            className={`phase phase-${place} tone-${tone}`}
            data-phase={name}
            aria-current={isHere ? "step" : undefined}
          >
            <span className="phase-sign" aria-hidden="true">
              {sign}
            </span>
            <span className="phase-text">{text}</span>
            <span className="visually-hidden">, {word}</span>
            <span className="phase-time">{at !== null && <Moment at={at} />}</span>
          </li>
        );
      })}
    </ol>
  );
}
