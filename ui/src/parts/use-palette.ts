import { type RefObject, useEffect, useState } from "react";
import type { MapLook } from "./map-look.ts";
import type { Palette } from "./map-tile.ts";

/** The colours of the looks in the theme that the element is shown in, and again when it changes. */
export function usePalette(
  element: RefObject<HTMLElement | null>,
  looks: readonly MapLook[],
): Palette | null {
  const [palette, setPalette] = useState<Palette | null>(null);
  useEffect(() => {
    const read = (): void => {
      if (element.current !== null) setPalette(paletteOf(element.current, looks));
    };
    read();
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", read);
    document.addEventListener("themechange", read);
    return () => {
      scheme.removeEventListener("change", read);
      document.removeEventListener("themechange", read);
    };
  }, [element, looks]);
  return palette;
}

function paletteOf(element: HTMLElement, looks: readonly MapLook[]): Palette {
  // A custom property is answered as it was written; only a real colour is worked out.
  const probe = document.createElement("span");
  element.append(probe);
  const colourOf = (name: string): string => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const fills = looks.map(({ colour }) => colourOf(colour));
  const palette = { fills, ground: colourOf("--surface") };
  probe.remove();
  return palette;
}
