import { expect, test } from "vitest";
import { blocksOfMarkdown } from "./markdown.ts";

test("blocksOfMarkdown tells headings, paragraphs, lists and code apart", () => {
  const text =
    "# Orders\nfirst line\nsecond\n\n- one\n- two\n\n1. three\n```\n# no heading\n```\nend";
  expect(blocksOfMarkdown(text)).toEqual([
    { type: "heading", inlines: [{ type: "text", text: "Orders" }] },
    { type: "paragraph", inlines: expect.anything() as unknown },
    { type: "list", items: [[{ type: "text", text: "one" }], [{ type: "text", text: "two" }]] },
    { type: "list", items: [[{ type: "text", text: "three" }]] },
    { type: "code", text: "# no heading" },
    { type: "paragraph", inlines: [{ type: "text", text: "end" }] },
  ]);
});

test("blocksOfMarkdown finds bold, italic, code and links, and leaves the rest as it is", () => {
  const [block] = blocksOfMarkdown("a **b** *c* `**d**` [e](https://x.example) <b>f</b> 2 * 3 * 4");
  expect(block).toEqual({
    type: "paragraph",
    inlines: [
      { type: "text", text: "a " },
      { type: "bold", text: "b" },
      { type: "text", text: " " },
      { type: "italic", text: "c" },
      { type: "text", text: " " },
      { type: "code", text: "**d**" },
      { type: "text", text: " " },
      { type: "link", text: "e", url: "https://x.example" },
      { type: "text", text: " <b>f</b> 2 * 3 * 4" },
    ],
  });
});

test("blocksOfMarkdown takes code that is never closed, and nothing at all", () => {
  expect(blocksOfMarkdown("```sql\nselect 1")).toEqual([{ type: "code", text: "select 1" }]);
  expect(blocksOfMarkdown("")).toEqual([]);
});
