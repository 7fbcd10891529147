import { shown } from "../benchmark.ts";

/** Bars on one scale. */
export type Panel = {
  title: string;
  bars: { label: string; value: number; isMarked: boolean }[];
};

const WIDTH = 760;
const LABEL_WIDTH = 200;
const VALUE_WIDTH = 70;
const TITLE_HEIGHT = 34;
const BAR_STEP = 26;
const BAR_HEIGHT = 18;
const GAP = 20;

/** A picture of bars in SVG, readable on light and dark pages. */
export function barChart(panels: readonly Panel[]): string {
  const parts: string[] = [];
  let top = GAP;
  for (const panel of panels) {
    parts.push(...panelOf(panel, top));
    top += TITLE_HEIGHT + panel.bars.length * BAR_STEP + GAP;
  }
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${top}" width="${WIDTH}"` +
      ` height="${top}" font-family="system-ui, sans-serif" font-size="13" role="img">`,
    `  <title>${escaped(panels.map(({ title }) => title).join("; "))}</title>`,
    `  <rect width="${WIDTH}" height="${top}" fill="#ffffff"/>`,
    ...parts,
    "</svg>",
    "",
  ].join("\n");
}

function panelOf({ title, bars }: Panel, top: number): string[] {
  const most = Math.max(...bars.map(({ value }) => value));
  const room = WIDTH - LABEL_WIDTH - VALUE_WIDTH - 2 * GAP;
  const lines = bars.flatMap(({ label, value, isMarked }, index) => {
    const y = top + TITLE_HEIGHT + index * BAR_STEP;
    const width = Math.max(1, Math.round((value / most) * room));
    const text = y + BAR_HEIGHT - 4;
    const x = GAP + LABEL_WIDTH;
    const fill = isMarked ? "#2563eb" : "#94a3b8";
    return [
      `  <text x="${x - 8}" y="${text}" text-anchor="end" fill="#0f172a">${escaped(label)}</text>`,
      `  <rect x="${x}" y="${y}" width="${width}" height="${BAR_HEIGHT}" rx="2" fill="${fill}"/>`,
      `  <text x="${x + width + 6}" y="${text}" fill="#0f172a">${shown(value)}</text>`,
    ];
  });
  return [
    `  <text x="${GAP}" y="${top + 14}" font-weight="600" fill="#0f172a">${escaped(title)}</text>`,
    ...lines,
  ];
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
