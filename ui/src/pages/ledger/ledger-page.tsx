import { type FormEvent, type ReactNode, useState } from "react";
import { useLocation } from "wouter";
import { Field } from "../../parts/field.tsx";
import { TypedFilter } from "../../parts/filters.tsx";
import { Page } from "../../parts/page.tsx";
import { useFilters } from "../../parts/use-filters.ts";
import { historyHref } from "./event-links.ts";
import { EventList, NoEvents } from "./event-list.tsx";
import "./ledger.css";
import { TypeChoice } from "./type-choice.tsx";

/** Everything that happened, newest first, and as it happens. */
export function LedgerPage(): ReactNode {
  const [filters, setFilter] = useFilters(["types", "entity", "before"]);
  const { types, entity } = filters;
  const before = /^\d{1,15}$/.test(filters.before) ? filters.before : "";
  return (
    <Page title="Ledger">
      <GoTo />
      <search className="filters ledger-filters" aria-label="Filters of events">
        <TypedFilter
          label="About (an id or a name)"
          value={entity}
          onChange={(value) => setFilter("entity", value)}
        />
        <TypedFilter
          label="Before position"
          value={before}
          isNumber
          onChange={(value) => setFilter("before", value)}
        />
        <TypeChoice
          chosen={types === "" ? [] : types.split(",")}
          onChange={(chosen) => setFilter("types", chosen.join(","))}
        />
      </search>
      <EventList
        label="Events"
        filter={{ types, entity, before }}
        empty={<NoEvents isFiltered={types !== "" || entity !== "" || before !== ""} />}
      />
    </Page>
  );
}

/** A box that takes any id, or a position, and goes there. */
function GoTo(): ReactNode {
  const [text, setText] = useState("");
  const [, go] = useLocation();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const entity = text.trim();
    if (entity !== "") go(historyHref(entity));
  };
  return (
    <form className="ledger-go" onSubmit={submit}>
      <Field
        label="Go to"
        hint="A position, or the id of a backfill, chunk, run, tick, evaluation, sync, segment, split or move, a schedule or sensor by name, a partition as asset@key."
      >
        {(control) => (
          <div className="row ledger-go-row">
            <input
              {...control}
              type="search"
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
            <button type="submit" className="button">
              Go
            </button>
          </div>
        )}
      </Field>
    </form>
  );
}
