import {
  type PointerEvent,
  type ReactNode,
  type RefObject,
  useEffect,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { Link } from "wouter";
import "./graph.css";
import {
  type Direction,
  type GraphLayout,
  layoutGraph,
  NODE_HEIGHT,
  NODE_WIDTH,
  pathOf,
} from "./graph-layout.ts";
import { lookOf } from "./status-look.ts";

/** A box of a graph, which leads somewhere. */
export type GraphNode = {
  id: string;
  text: string;
  /** A second, smaller line. */
  detail?: string | undefined;
  /** Shown as its sign, word and colour. */
  state?: string | undefined;
  href: string;
};

const ZOOMS = [0.25, 0.35, 0.5, 0.7, 1, 1.4] as const;

/**
 * What comes from what, as boxes and lines. The boxes are links in the order of the lines; the whole
 * can be scrolled, dragged and made larger and smaller.
 */
export function Graph(props: {
  /** What the graph shows, for those who cannot see it. */
  label: string;
  nodes: readonly GraphNode[];
  edges: readonly (readonly [from: string, to: string])[];
  direction: Direction;
  /** The box that the page is about. */
  current?: string | undefined;
  /** Hears which boxes are in view, in the order of the nodes. */
  onSeen?: ((ids: readonly string[]) => void) | undefined;
}): ReactNode {
  const { label, nodes, edges, direction, current, onSeen } = props;
  // What the boxes say changes all the time; where they stand does not.
  const shape = JSON.stringify([nodes.map(({ id }) => id), edges]);
  const placed = useMemo(() => {
    const [ids, lines] = JSON.parse(shape) as [string[], [string, string][]];
    return layoutGraph(ids, lines, direction);
  }, [shape, direction]);
  const box = useRef<HTMLDivElement>(null);
  const { zoom, larger, smaller, fit } = useZoom(box, placed);
  useShown(box, placed, current, zoom);
  useSeen(box, placed, onSeen);
  const drag = useDrag(box);
  return (
    <div className="graph">
      <div className="graph-buttons" role="group" aria-label={`Size of: ${label}`}>
        <button type="button" className="button" onClick={smaller} aria-label="Smaller">
          −
        </button>
        <button type="button" className="button" onClick={fit}>
          Fit
        </button>
        <button type="button" className="button" onClick={larger} aria-label="Larger">
          +
        </button>
      </div>
      {/* A region that scrolls has to be reached by the keyboard too. */}
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <div ref={box} className="graph-box" role="region" aria-label={label} tabIndex={0} {...drag}>
        <div
          className="graph-sized"
          style={{ width: placed.width * zoom, height: placed.height * zoom }}
        >
          <div
            className="graph-canvas"
            style={{
              width: placed.width,
              height: placed.height,
              transform: `scale(${zoom})`,
            }}
          >
            <Lines placed={placed} direction={direction} current={current} />
            <ul>
              {placed.nodes.map(({ id, x, y }, index) => {
                const node = nodes[index];
                if (node === undefined) return null;
                const style = { left: x - NODE_WIDTH / 2, top: y - NODE_HEIGHT / 2 };
                return (
                  <li key={id} style={style} data-node={id}>
                    <Box node={node} isCurrent={id === current} />
                  </li>
                );
              })}
            </ul>
          </div>
        </div>
      </div>
    </div>
  );
}

function Box({ node, isCurrent }: { node: GraphNode; isCurrent: boolean }): ReactNode {
  const { text, detail, state, href } = node;
  const look = state === undefined ? null : lookOf(state);
  return (
    <Link
      href={href}
      className={`graph-node ${look === null ? "" : `tone-${look.tone}`}`}
      aria-current={isCurrent ? "true" : undefined}
      data-state={state}
      title={[text, detail, look?.word].filter((part) => part !== undefined).join(" · ")}
      draggable={false}
    >
      {look !== null && (
        <span className="graph-sign" aria-hidden="true">
          {look.sign}
        </span>
      )}
      <span className="graph-words">
        <span className="graph-text">{text}</span>
        {detail !== undefined && <span className="graph-detail">{detail}</span>}
      </span>
      {look !== null && <span className="visually-hidden">, {look.word}</span>}
    </Link>
  );
}

function Lines(props: {
  placed: GraphLayout;
  direction: Direction;
  current: string | undefined;
}): ReactNode {
  const { placed, direction, current } = props;
  const arrow = useId();
  return (
    <svg width={placed.width} height={placed.height} aria-hidden="true">
      <defs>
        <marker
          id={arrow}
          viewBox="0 0 8 8"
          refX="7"
          refY="4"
          markerWidth="9"
          markerHeight="9"
          markerUnits="userSpaceOnUse"
          orient="auto"
        >
          <path d="M0,0L8,4L0,8z" className="graph-arrow" />
        </marker>
      </defs>
      {placed.edges.map(({ from, to, points }) => (
        <path
          key={`${from}\n${to}`}
          d={pathOf(points, direction)}
          className={`graph-line ${from === current || to === current ? "graph-line-near" : ""}`}
          markerEnd={`url(#${arrow})`}
        />
      ))}
    </svg>
  );
}

/** How large the graph is drawn: at first as large as fits, within what can be read. */
function useZoom(box: RefObject<HTMLDivElement | null>, { width, height }: GraphLayout) {
  const [chosen, setChosen] = useState<number | null>(null);
  const [fitting, setFitting] = useState(1);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null || width === 0) return;
    const measure = (): void => {
      const across = element.clientWidth / width;
      const least = Math.min(across, Math.max(0.7, element.clientHeight / height));
      setFitting(Math.min(1, Math.max(0.7, least)));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [box, width, height]);
  const zoom = chosen ?? fitting;
  useEffect(() => {
    const element = box.current;
    const onWheel = (event: WheelEvent): void => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      setChosen((before) => stepped(before ?? fitting, event.deltaY < 0 ? 1 : -1));
    };
    element?.addEventListener("wheel", onWheel, { passive: false });
    return () => element?.removeEventListener("wheel", onWheel);
  }, [box, fitting]);
  const fit = (): void => {
    const element = box.current;
    if (element === null) return;
    const whole = Math.min(element.clientWidth / width, element.clientHeight / height);
    setChosen(Math.min(1, Math.max(ZOOMS[0], whole)));
  };
  const step = (by: 1 | -1) => () => setChosen(stepped(zoom, by));
  return { zoom, larger: step(1), smaller: step(-1), fit };
}

function stepped(zoom: number, by: 1 | -1): number {
  const next =
    by === 1
      ? ZOOMS.find((each) => each > zoom + 0.01)
      : ZOOMS.findLast((each) => each < zoom - 0.01);
  return next ?? zoom;
}

/** Brings the box that the page is about into sight. */
function useShown(
  box: RefObject<HTMLDivElement | null>,
  { nodes }: GraphLayout,
  current: string | undefined,
  zoom: number,
): void {
  useLayoutEffect(() => {
    const element = box.current;
    const place = nodes.find(({ id }) => id === current);
    if (element === null || place === undefined) return;
    element.scrollLeft = place.x * zoom - element.clientWidth / 2;
    element.scrollTop = place.y * zoom - element.clientHeight / 2;
  }, [box, nodes, current, zoom]);
}

/** Tells which boxes are in view, whenever that changes. */
function useSeen(
  box: RefObject<HTMLDivElement | null>,
  { nodes }: GraphLayout,
  onSeen: ((ids: readonly string[]) => void) | undefined,
): void {
  useEffect(() => {
    const element = box.current;
    if (element === null || onSeen === undefined) return;
    const seen = new Set<string>();
    const observer = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) {
          const id = target instanceof HTMLElement ? (target.dataset["node"] ?? "") : "";
          if (isIntersecting) seen.add(id);
          else seen.delete(id);
        }
        onSeen(nodes.map(({ id }) => id).filter((id) => seen.has(id)));
      },
      { root: element },
    );
    for (const each of element.querySelectorAll("[data-node]")) observer.observe(each);
    return () => observer.disconnect();
  }, [box, nodes, onSeen]);
}

/** Moves the graph with the pointer; a press that moved is no click on a link. */
function useDrag(box: RefObject<HTMLDivElement | null>) {
  const held = useRef<{ x: number; y: number; moved: boolean } | null>(null);
  return {
    onPointerDown(event: PointerEvent): void {
      if (event.pointerType !== "mouse" || event.button !== 0) return;
      held.current = { x: event.clientX, y: event.clientY, moved: false };
    },
    onPointerMove(event: PointerEvent): void {
      const { current: start } = held;
      const { current: element } = box;
      if (start === null || element === null || event.buttons === 0) return;
      const [dx, dy] = [event.clientX - start.x, event.clientY - start.y];
      if (!start.moved && Math.abs(dx) + Math.abs(dy) < 5) return;
      element.scrollLeft -= dx;
      element.scrollTop -= dy;
      held.current = { x: event.clientX, y: event.clientY, moved: true };
    },
    onClickCapture(event: { preventDefault(): void; stopPropagation(): void }): void {
      if (held.current?.moved === true) {
        event.preventDefault();
        event.stopPropagation();
      }
      held.current = null;
    },
  };
}
