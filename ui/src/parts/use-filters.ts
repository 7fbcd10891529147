import { useCallback } from "react";
import { useSearchParams } from "wouter";

/** Filters that live in the address, so that what is seen can be linked to; an empty one is gone. */
export function useFilters<Name extends string>(
  names: readonly Name[],
): [Readonly<Record<Name, string>>, (name: Name, value: string) => void] {
  const [search, setSearch] = useSearchParams();
  const values = Object.fromEntries(names.map((name) => [name, search.get(name) ?? ""]));
  const set = useCallback(
    (name: Name, value: string) => {
      setSearch(
        (before) => {
          const after = new URLSearchParams(before);
          if (value === "") after.delete(name);
          else after.set(name, value);
          return after;
        },
        { replace: true },
      );
    },
    [setSearch],
  );
  return [values as Readonly<Record<Name, string>>, set];
}
