/** A part of a page: of which depth, what it is called, and the name that links have for it. */
export type Heading = { readonly depth: number; readonly text: string; readonly anchor: string };

const HEADING = /^(#{1,6}) +(.+?) *#*$/gm;
const FENCED = /^(`{3,}|~{3,})[^\n]*\n[\s\S]*?^\1 *$/gm;

/** The name of a heading in links, as the hosts of repositories make it: so links hold there and on the site. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, "")
    .replaceAll(" ", "-");
}

/** The text of a page without its blocks of code. */
export function withoutCode(markdown: string): string {
  return markdown.replaceAll(FENCED, "");
}

/** The headings of a page, in order. What is there twice is numbered the second time. */
export function headingsOf(markdown: string): Heading[] {
  const times = new Map<string, number>();
  return [...withoutCode(markdown).matchAll(HEADING)].map(([, marks = "", written = ""]) => {
    const text = written.replaceAll(/\[([^\]]+)\]\([^)]*\)/g, "$1").replaceAll(/[`*]/g, "");
    const anchor = anchorOf(text);
    const before = times.get(anchor) ?? 0;
    times.set(anchor, before + 1);
    return { depth: marks.length, text, anchor: before === 0 ? anchor : `${anchor}-${before}` };
  });
}
