import { type RefObject, useEffect, useState } from "react";

/** The colours of tokens in the theme that an element is shown in, and again when it changes. */
export function useColours<Token extends string>(
  element: RefObject<HTMLElement | null>,
  tokens: readonly Token[],
): Readonly<Record<Token, string>> | null {
  const [colours, setColours] = useState<Readonly<Record<Token, string>> | null>(null);
  useEffect(() => {
    const read = (): void => {
      if (element.current !== null) setColours(coloursOf(element.current, tokens));
    };
    read();
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", read);
    document.addEventListener("themechange", read);
    return () => {
      scheme.removeEventListener("change", read);
      document.removeEventListener("themechange", read);
    };
  }, [element, tokens]);
  return colours;
}

function coloursOf<Token extends string>(
  element: HTMLElement,
  tokens: readonly Token[],
): Record<Token, string> {
  // A custom property is answered as it was written; only a real colour is worked out.
  const probe = document.createElement("span");
  element.append(probe);
  const entries = tokens.map((token) => {
    probe.style.color = `var(${token})`;
    return [token, getComputedStyle(probe).color] as const;
  });
  probe.remove();
  return Object.fromEntries(entries) as Record<Token, string>;
}
