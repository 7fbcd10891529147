import { type ReactNode, useEffect, useState } from "react";
import { Status } from "./status.tsx";

/** How long the pointer rests on a cell before more is asked about it. */
const REST_MS = 120;

/** How far a tip stays from its cell and from the edges of the window. */
const EDGE = 10;

/** As wide as a tip gets, and as high as it usually is. */
const TIP_WIDTH = 300;
const TIP_HEIGHT = 120;

/** What a tip is about, and the cell's place in the window. */
export type TipPlace = { index: number; left: number; top: number; size: number };

/** What is known of a cell: its name and state at once, and more when the pointer rests there. */
export function MapTip(props: {
  place: TipPlace;
  name: string;
  state: string;
  detailsOf: ((index: number, signal: AbortSignal) => Promise<ReactNode>) | undefined;
}): ReactNode {
  const { place, name, state, detailsOf } = props;
  const details = useDetails(place.index, detailsOf);
  // Below the cell where there is room: above the map are its buttons.
  const isLow = place.top + place.size + EDGE + TIP_HEIGHT > innerHeight;
  const left = Math.max(EDGE, Math.min(place.left, innerWidth - TIP_WIDTH - EDGE));
  return (
    <div
      className="map-tip"
      data-index={place.index}
      style={{
        left,
        ...(isLow
          ? { bottom: innerHeight - place.top + EDGE }
          : { top: place.top + place.size + EDGE }),
      }}
    >
      <div className="row">
        <strong>{name}</strong> <Status state={state} />
      </div>
      {details !== null && <div className="map-tip-details">{details}</div>}
    </div>
  );
}

type Details = { index: number; node: ReactNode };

function useDetails(
  index: number,
  detailsOf: ((index: number, signal: AbortSignal) => Promise<ReactNode>) | undefined,
): ReactNode {
  const [details, setDetails] = useState<Details | null>(null);
  useEffect(() => {
    if (detailsOf === undefined) return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      detailsOf(index, stop.signal).then(
        (node) => {
          if (!stop.signal.aborted) setDetails({ index, node });
        },
        // What is told at once is enough where more cannot be had.
        () => undefined,
      );
    }, REST_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [index, detailsOf]);
  return details?.index === index ? details.node : null;
}
