import { useCallback } from "react";
import { navigate } from "wouter/use-browser-location";
import { useAddressQuery } from "./use-address.ts";

/** Filters that live in the address, so that what is seen can be linked to; an empty one is gone. */
export function useFilters<Name extends string>(
  names: readonly Name[],
): [Readonly<Record<Name, string>>, (name: Name, value: string) => void] {
  const search = useAddressQuery();
  const values = Object.fromEntries(names.map((name) => [name, search.get(name) ?? ""]));
  const set = useCallback((name: Name, value: string) => {
    const after = new URLSearchParams(location.search);
    if (value === "") after.delete(name);
    else after.set(name, value);
    const query = after.size === 0 ? "" : `?${after.toString()}`;
    navigate(location.pathname + query, { replace: true });
  }, []);
  return [values as Readonly<Record<Name, string>>, set];
}

/** The filters that are set, as the query of a list. */
export function queryOf<Name extends string>(
  filters: Readonly<Record<Name, string>>,
): Partial<Record<Name, string>> {
  const query: Partial<Record<Name, string>> = {};
  for (const name in filters) if (filters[name] !== "") query[name] = filters[name];
  return query;
}
