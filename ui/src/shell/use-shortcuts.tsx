import { type ReactNode, useEffect, useRef } from "react";
import { useLocation } from "wouter";
import { useOpening } from "../parts/opening.ts";

/** A place that a letter leads to. */
type Place = { href: string; text: string; letter: string };

/** How long after `g` a letter still counts. */
const CHORD_MS = 1_500;

/**
 * Keys for those who do not use a mouse: `g` and a letter goes somewhere, `/` goes to the search of
 * a page that has one, `?` tells all of them. Answers the button and dialog that tell.
 */
export function useShortcuts(places: readonly Place[]): ReactNode {
  const [, go] = useLocation();
  const { key, open, close } = useOpening();
  const chordUntil = useRef(0);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector("dialog[open]") !== null) return;
      if (event.key === "?") open();
      else if (event.key === "/") focusSearch(event);
      else if (event.key === "g") chordUntil.current = performance.now() + CHORD_MS;
      else if (performance.now() < chordUntil.current) {
        const place = places.find(({ letter }) => letter === event.key);
        chordUntil.current = 0;
        if (place !== undefined) go(place.href);
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [places, go, open]);
  return (
    <>
      <button type="button" className="button keys-button" onClick={open}>
        Keys
      </button>
      {key !== null && (
        <dialog
          key={key}
          ref={showModal}
          className="dialog"
          aria-labelledby="keys-title"
          onClose={close}
        >
          <h2 id="keys-title">Keys</h2>
          <dl className="keys">
            {places.map(({ text, letter }) => (
              <div key={letter}>
                <dt>
                  <kbd>g</kbd> <kbd>{letter}</kbd>
                </dt>
                <dd>{text}</dd>
              </div>
            ))}
            <div>
              <dt>
                <kbd>/</kbd>
              </dt>
              <dd>Search on this page</dd>
            </div>
            <div>
              <dt>
                <kbd>?</kbd>
              </dt>
              <dd>These keys</dd>
            </div>
          </dl>
          <form method="dialog" className="dialog-buttons">
            <button type="submit" className="button">
              Close
            </button>
          </form>
        </dialog>
      )}
    </>
  );
}

function showModal(dialog: HTMLDialogElement | null): void {
  dialog?.showModal();
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

function focusSearch(event: KeyboardEvent): void {
  const search = document.querySelector<HTMLInputElement>("main input[type=search]");
  if (search === null) return;
  event.preventDefault();
  search.focus();
}
