import { Graph as DagreGraph, layout } from "@dagrejs/dagre";

/** A box of a graph and where it stands, by its middle, in pixels. */
export type PlacedNode = { id: string; x: number; y: number };

/** A line of a graph as the points it goes through. */
export type PlacedEdge = { from: string; to: string; points: readonly { x: number; y: number }[] };

/** A graph laid out. */
export type GraphLayout = {
  nodes: readonly PlacedNode[];
  edges: readonly PlacedEdge[];
  width: number;
  height: number;
};

/** Which way a graph runs. */
export type Direction = "right" | "down";

/** Boxes are all of one size, so that a long name does not tear the rest apart. */
export const NODE_WIDTH = 190;
export const NODE_HEIGHT = 44;

const MARGIN = 12;
const LAYER_GAP = 56;
const NODE_GAP = 16;

/** From so many boxes on lines may cross: finding how they do not would take seconds. */
const ORDERED_NODES_MAX = 400;

/** Lays a graph without cycles out; edges to nodes that are not there are left out. */
export function layoutGraph(
  ids: readonly string[],
  edges: readonly (readonly [from: string, to: string])[],
  direction: Direction,
): GraphLayout {
  // The layout would be as large as minus infinity.
  if (ids.length === 0) return { nodes: [], edges: [], width: 0, height: 0 };
  const known = new Set(ids);
  const own = edges.filter(([from, to]) => known.has(from) && known.has(to) && from !== to);
  if (ids.length > ORDERED_NODES_MAX) return layered(ids, own, direction);
  const graph = new DagreGraph();
  graph.setGraph({
    rankdir: direction === "right" ? "LR" : "TB",
    ranksep: LAYER_GAP,
    nodesep: NODE_GAP,
    marginx: MARGIN,
    marginy: MARGIN,
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const id of ids) graph.setNode(id, { width: NODE_WIDTH, height: NODE_HEIGHT });
  for (const [from, to] of own) graph.setEdge(from, to);
  layout(graph);
  const { width = 0, height = 0 } = graph.graph();
  const placeOf = (id: string): PlacedNode => {
    const { x, y } = graph.node(id);
    return { id, x, y };
  };
  return {
    nodes: ids.map(placeOf),
    edges: own.map(([from, to]) => {
      const [start, end] = endsOf(placeOf(from), placeOf(to), direction);
      // Lines leave and enter in the middle of a side, whichever way they come.
      const between = graph.edge(from, to).points.slice(1, -1);
      return { from, to, points: [start, ...between, end] };
    }),
    width,
    height,
  };
}

/** Puts each box one layer after the last that it comes from, in the order they were given. */
function layered(
  ids: readonly string[],
  edges: readonly (readonly [string, string])[],
  direction: Direction,
): GraphLayout {
  const layers = layersOf(ids, edges);
  const [along, across] =
    direction === "right" ? [NODE_WIDTH, NODE_HEIGHT] : [NODE_HEIGHT, NODE_WIDTH];
  const filled = new Map<number, number>();
  const places = new Map<string, PlacedNode>();
  for (const id of ids) {
    const layer = layers.get(id) ?? 0;
    const place = filled.get(layer) ?? 0;
    filled.set(layer, place + 1);
    const far = MARGIN + layer * (along + LAYER_GAP) + along / 2;
    const side = MARGIN + place * (across + NODE_GAP) + across / 2;
    places.set(id, direction === "right" ? { id, x: far, y: side } : { id, x: side, y: far });
  }
  const lengthAlong = MARGIN * 2 + filled.size * (along + LAYER_GAP) - LAYER_GAP;
  const lengthAcross = MARGIN * 2 + Math.max(...filled.values()) * (across + NODE_GAP) - NODE_GAP;
  const placeOf = (id: string): PlacedNode => places.get(id) ?? { id, x: 0, y: 0 };
  return {
    nodes: ids.map(placeOf),
    edges: edges.map(([from, to]) => {
      return { from, to, points: endsOf(placeOf(from), placeOf(to), direction) };
    }),
    width: direction === "right" ? lengthAlong : lengthAcross,
    height: direction === "right" ? lengthAcross : lengthAlong,
  };
}

type Point = { x: number; y: number };

function endsOf(from: PlacedNode, to: PlacedNode, direction: Direction): [Point, Point] {
  const [dx, dy] = direction === "right" ? [NODE_WIDTH / 2, 0] : [0, NODE_HEIGHT / 2];
  return [
    { x: from.x + dx, y: from.y + dy },
    { x: to.x - dx, y: to.y - dy },
  ];
}

/** How many boxes come before each, along the longest way. */
function layersOf(
  ids: readonly string[],
  edges: readonly (readonly [string, string])[],
): Map<string, number> {
  const after = Map.groupBy(edges, ([from]) => from);
  const waits = new Map<string, number>();
  for (const [, to] of edges) waits.set(to, (waits.get(to) ?? 0) + 1);
  const layers = new Map<string, number>();
  const ready = ids.filter((id) => !waits.has(id));
  for (const id of ready) {
    const layer = layers.get(id) ?? 0;
    layers.set(id, layer);
    for (const [, to] of after.get(id) ?? []) {
      layers.set(to, Math.max(layers.get(to) ?? 0, layer + 1));
      const left = (waits.get(to) ?? 1) - 1;
      waits.set(to, left);
      if (left === 0) ready.push(to);
    }
  }
  return layers;
}

/** A smooth line through the points, as the path of an SVG. */
export function pathOf(points: PlacedEdge["points"], direction: Direction): string {
  const [first, ...rest] = points;
  if (first === undefined) return "";
  let path = `M${first.x},${first.y}`;
  let before = first;
  for (const point of rest) {
    const middle =
      direction === "right"
        ? `${(before.x + point.x) / 2},${before.y} ${(before.x + point.x) / 2},${point.y}`
        : `${before.x},${(before.y + point.y) / 2} ${point.x},${(before.y + point.y) / 2}`;
    path += `C${middle} ${point.x},${point.y}`;
    before = point;
  }
  return path;
}
