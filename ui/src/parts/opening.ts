import { useCallback, useState } from "react";

/** What is shown on top of the page: whether it is, and what opens and closes it. */
export type Opening = {
  /** Of what is open now, for React to tell one opening from the next; null while nothing is. */
  key: number | null;
  open: () => void;
  close: () => void;
};

/**
 * Opens and closes a dialog. The browser tells that a dialog was closed a while after it is gone from
 * sight; by then it may have been opened again, which is another opening and stays.
 */
export function useOpening(): Opening {
  const [{ count, isOpen }, set] = useState({ count: 0, isOpen: false });
  const open = useCallback(() => set((now) => ({ count: now.count + 1, isOpen: true })), []);
  const close = (): void => set((now) => (now.count === count ? { count, isOpen: false } : now));
  return { key: isOpen ? count : null, open, close };
}
