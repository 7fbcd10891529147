import { type FormEvent, type ReactNode, useEffect, useState } from "react";
import { Link } from "wouter";
import { useAnswer } from "../../api/use-answer.ts";
import { Facts } from "../../parts/facts.tsx";
import { Field } from "../../parts/field.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { useFilters } from "../../parts/use-filters.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { RoutingLink } from "./routing-link.tsx";

/** Finds out on which shard a tenant is, and since which version. */
export function TenantSearch(): ReactNode {
  const [{ tenant }, setFilter] = useFilters(["tenant"]);
  const [typed, setTyped] = useState(tenant);
  // The address may name another, as when one of the list was followed.
  useEffect(() => setTyped(tenant), [tenant]);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    setFilter("tenant", typed.trim());
  };
  return (
    <div className="card stack">
      <form className="row routing-search" onSubmit={submit} role="search">
        <Field label="Tenant">
          {(control) => (
            <input
              {...control}
              type="search"
              value={typed}
              onChange={(event) => setTyped(event.target.value)}
            />
          )}
        </Field>
        <button type="submit" className="button">
          Find shard
        </button>
      </form>
      {tenant !== "" && <Found tenant={tenant} />}
    </div>
  );
}

function Found({ tenant }: { tenant: string }): ReactNode {
  const answer = useAnswer("getRoute", { query: { tenant } });
  return (
    <Loaded answer={answer}>
      {({ shard, epoch, own }) => (
        <div className="stack" role="status">
          <Facts
            facts={[
              ["Tenant", <code key="tenant">{visibleText(tenant)}</code>],
              ["Shard", <code key="shard">{shard}</code>],
              ["Since version", <RoutingLink key="epoch" name="version" value={String(epoch)} />],
              ["By", own ? "its own route" : "the default"],
            ]}
          />
          <p>
            <Link
              href={`/splits/new?source=${encodeURIComponent(shard)}&tenant=${encodeURIComponent(tenant)}`}
            >
              Plan a split for this tenant
            </Link>
          </p>
        </div>
      )}
    </Loaded>
  );
}
