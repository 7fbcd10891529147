import type { ReactNode } from "react";
import type { Json as JsonType } from "../../../src/kernel/canonical.ts";
import {
  isDocument,
  isWebAddress,
  metadataValueOf,
  type MetadataValue,
  numberText,
} from "../../../src/kernel/metadata-value.ts";
import { Facts, Json } from "./facts.tsx";
import { type Block, blocksOfMarkdown, type Inline } from "./markdown.ts";
import { Table } from "./table.tsx";
import { visibleText } from "./visible-text.ts";

/** What a task said of what it made: each fact as what it says it is, the others as JSON. */
export function Metadata({ value, label }: { value: JsonType; label: string }): ReactNode {
  const facts = isDocument(value) ? Object.entries(value) : [];
  // Where nothing says how it is shown, it is shown as it stands in the ledger.
  if (facts.every(([, fact]) => metadataValueOf(fact) === null)) {
    return <Json value={value} label={label} />;
  }
  return (
    <section aria-label={label}>
      <Facts
        facts={facts.map(([name, fact]) => [
          visibleText(name),
          <Fact key={name} name={name} fact={fact} />,
        ])}
      />
    </section>
  );
}

function Fact({ name, fact }: { name: string; fact: JsonType }): ReactNode {
  const typed = metadataValueOf(fact);
  if (typed !== null) return <Typed name={name} typed={typed} />;
  if (typeof fact === "string") return visibleText(fact);
  return <code>{visibleText(JSON.stringify(fact))}</code>;
}

function Typed({ name, typed }: { name: string; typed: MetadataValue }): ReactNode {
  switch (typed.type) {
    case "number":
      return numberText(typed.value, typed.unit);
    case "link":
      return <WebLink url={typed.url} text={typed.text ?? typed.url} />;
    case "markdown":
      return <Markdown text={typed.text} />;
    case "json":
      return <Json value={typed.value} label={name} />;
    case "table":
      return (
        <Table
          label={name}
          columns={typed.columns.map((heading, at) => ({
            heading: visibleText(heading),
            cell: ({ cells }: { cells: readonly JsonType[] }) => cellText(cells[at] ?? null),
          }))}
          rows={typed.rows.map((cells, row) => ({ cells, row }))}
          keyOf={({ row }) => row}
          empty={<span className="soft">No rows</span>}
        />
      );
  }
}

function cellText(value: JsonType): string {
  if (value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A link that leaves the page; an address of another kind, which might run code, is only text. */
function WebLink({ url, text }: { url: string; text: string }): ReactNode {
  if (!isWebAddress(url)) return `${visibleText(text)} (${visibleText(url)})`;
  return (
    <a href={url} rel="noreferrer noopener" target="_blank">
      {visibleText(text)}
    </a>
  );
}

function Markdown({ text }: { text: string }): ReactNode {
  const blocks = blocksOfMarkdown(visibleText(text));
  // What it says never changes, so a place is a name.
  return <div className="stack">{blocks.map((block, place) => blockOf(block, place))}</div>;
}

function blockOf(block: Block, place: number): ReactNode {
  switch (block.type) {
    case "heading":
      return (
        <p key={place}>
          <strong>{block.inlines.map(inlineOf)}</strong>
        </p>
      );
    case "paragraph":
      return <p key={place}>{block.inlines.map(inlineOf)}</p>;
    case "code":
      return (
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        <pre key={place} className="json" tabIndex={0} role="region" aria-label="Code">
          {block.text}
        </pre>
      );
    case "list":
      return (
        <ul key={place}>
          {block.items.map((item, at) => (
            // oxlint-disable-next-line react/no-array-index-key
            <li key={at}>{item.map(inlineOf)}</li>
          ))}
        </ul>
      );
  }
}

function inlineOf(inline: Inline, place: number): ReactNode {
  switch (inline.type) {
    case "text":
      return inline.text;
    case "bold":
      return <strong key={place}>{inline.text}</strong>;
    case "italic":
      return <em key={place}>{inline.text}</em>;
    case "code":
      return <code key={place}>{inline.text}</code>;
    case "link":
      return <WebLink key={place} url={inline.url} text={inline.text} />;
  }
}
