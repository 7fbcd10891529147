/** A piece of a line of Markdown. */
export type Inline =
  | { type: "text" | "bold" | "italic" | "code"; text: string }
  | { type: "link"; text: string; url: string };

/** A block of Markdown: what of it is shown as more than its text. */
export type Block =
  | { type: "heading" | "paragraph"; inlines: Inline[] }
  | { type: "list"; items: Inline[][] }
  | { type: "code"; text: string };

const FENCE = /^\s*```/;
const ITEM = /^\s*(?:[-*+]|\d+[.)])\s+/;
const HEADING = /^#{1,6}\s+/;

/** The blocks of a Markdown text: headings, lists, code and paragraphs. What is unknown stays text. */
export function blocksOfMarkdown(text: string): Block[] {
  const blocks: Block[] = [];
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? "";
    const last = blocks.at(-1);
    const isContinued = at > 0 && (lines[at - 1] ?? "").trim() !== "";
    if (FENCE.test(line)) {
      const end = lines.findIndex((each, index) => index > at && FENCE.test(each));
      const through = end === -1 ? lines.length : end;
      blocks.push({ type: "code", text: lines.slice(at + 1, through).join("\n") });
      at = through;
    } else if (line.trim() === "") continue;
    else if (HEADING.test(line)) {
      blocks.push({ type: "heading", inlines: inlinesOf(line.replace(HEADING, "")) });
    } else if (ITEM.test(line)) {
      const item = inlinesOf(line.replace(ITEM, ""));
      if (last?.type === "list" && isContinued) last.items.push(item);
      else blocks.push({ type: "list", items: [item] });
    } else if (last?.type === "paragraph" && isContinued) {
      last.inlines.push({ type: "text", text: " " }, ...inlinesOf(line.trim()));
    } else blocks.push({ type: "paragraph", inlines: inlinesOf(line.trim()) });
  }
  return blocks;
}

/** In the order in which they are looked for at one place. */
const INLINE =
  /`(?<code>[^`]+)`|\*\*(?<bold>[^*]+)\*\*|\*(?<italic>[^*\s][^*]*)\*|\[(?<text>[^\]]+)\]\((?<url>[^\s()]+)\)/g;

function inlinesOf(line: string): Inline[] {
  const inlines: Inline[] = [];
  let from = 0;
  for (const match of line.matchAll(INLINE)) {
    if (match.index > from) inlines.push({ type: "text", text: line.slice(from, match.index) });
    from = match.index + match[0].length;
    const { code, bold, italic, text = "", url = "" } = match.groups ?? {};
    if (code !== undefined) inlines.push({ type: "code", text: code });
    else if (bold !== undefined) inlines.push({ type: "bold", text: bold });
    else if (italic !== undefined) inlines.push({ type: "italic", text: italic });
    else inlines.push({ type: "link", text, url });
  }
  if (from < line.length) inlines.push({ type: "text", text: line.slice(from) });
  return inlines;
}
