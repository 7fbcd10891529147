import type { ReactNode } from "react";
import { Link } from "wouter";
import { useAddressQuery } from "../../parts/use-address.ts";
import { visibleText } from "../../parts/visible-text.ts";

/** Opens a tenant or a version on the page of the routing; what else is open there stays so. */
export function RoutingLink(props: { name: "tenant" | "version"; value: string }): ReactNode {
  const query = useAddressQuery();
  query.set(props.name, props.value);
  return <Link href={`/routing?${query.toString()}`}>{visibleText(props.value)}</Link>;
}
