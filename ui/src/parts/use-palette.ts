import { type RefObject, useMemo } from "react";
import type { MapLook } from "./map-look.ts";
import type { Palette } from "./draw-tile.ts";
import { useColours } from "./use-colours.ts";

/** The colours of the looks in the theme that the element is shown in, and again when it changes. */
export function usePalette(
  element: RefObject<HTMLElement | null>,
  looks: readonly MapLook[],
): Palette | null {
  const tokens = useMemo(() => [...looks.map(({ colour }) => colour), "--surface"], [looks]);
  const colours = useColours(element, tokens);
  return useMemo(() => {
    if (colours === null) return null;
    const colourOf = (token: string): string => colours[token] ?? "transparent";
    return { fills: looks.map(({ colour }) => colourOf(colour)), ground: colourOf("--surface") };
  }, [colours, looks]);
}
