import { type FormEvent, type ReactNode, useState } from "react";
import { Link } from "wouter";
import type { AnswerOf } from "../../../../src/core/api/operations.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Facts } from "../../parts/facts.tsx";
import { Field } from "../../parts/field.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { useFilters } from "../../parts/use-filters.ts";

type Routing = AnswerOf<"getRouting">;

/** Finds out on which shard a tenant is, and since which version. */
export function TenantSearch({ routing }: { routing: Routing }): ReactNode {
  const [{ tenant }, setFilter] = useFilters(["tenant"]);
  const [typed, setTyped] = useState(tenant);
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
          Find its shard
        </button>
      </form>
      {tenant !== "" && <Found tenant={tenant} routing={routing} />}
    </div>
  );
}

function Found({ tenant, routing }: { tenant: string; routing: Routing }): ReactNode {
  const answer = useAnswer("getRoute", { params: { tenant } });
  return (
    <Loaded answer={answer}>
      {({ shard, epoch }) => (
        <div className="stack" role="status">
          <Facts
            facts={[
              ["Tenant", <code key="tenant">{tenant}</code>],
              ["Shard", <code key="shard">{shard}</code>],
              [
                "Since version",
                <Link key="epoch" href={`/routing?version=${epoch}`}>
                  {epoch}
                </Link>,
              ],
              [
                "By",
                epoch === routing.default_epoch && shard === routing.default_shard
                  ? "the default, as everybody else"
                  : "a route of its own",
              ],
            ]}
          />
          <p>
            <Link
              href={`/splits/new?source=${encodeURIComponent(shard)}&tenant=${encodeURIComponent(tenant)}`}
            >
              Plan a split that takes it elsewhere
            </Link>
          </p>
        </div>
      )}
    </Loaded>
  );
}
