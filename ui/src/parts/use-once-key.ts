import { useCallback, useRef } from "react";
import { randomKey } from "../api/random-key.ts";

/** A key for a wish: the same for the same wish, so that a lost answer does not make it twice. */
export function useOnceKey(): (wish: unknown) => string {
  const last = useRef({ text: "", key: "" });
  return useCallback((wish) => {
    const text = JSON.stringify(wish);
    if (last.current.text !== text) last.current = { text, key: randomKey() };
    return last.current.key;
  }, []);
}
