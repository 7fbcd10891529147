import { useCallback, useEffect, useRef, useState } from "react";
import { navigate } from "wouter/use-browser-location";
import { useAddressQuery } from "../../../parts/use-address.ts";
import { type CreateForm, formOfQuery, queryOfForm } from "./create-form.ts";

/** How long nothing is typed before the address follows: browsers refuse many changes of it. */
const SETTLED_MS = 300;

/** The longest query that servers and those who pass links on take without loss. */
const QUERY_LENGTH_MAX = 6_000;

/** What is filled in, and the address that says it. */
export type FormState = {
  form: CreateForm;
  change: (fields: Partial<CreateForm>) => void;
  /** Whether the address can hold it: a long list of keys is too much for one. */
  isLinked: boolean;
};

/** A form that lives in the address, so that a plan can be linked to and comes back with "back". */
export function useCreateForm(): FormState {
  const search = useAddressQuery().toString();
  const [form, setForm] = useState(() => formOfQuery(new URLSearchParams(search)));
  const written = useRef(search);
  const query = queryOfForm(form).toString();
  const isLinked = query.length <= QUERY_LENGTH_MAX;
  useEffect(() => {
    // An address that this form did not write was followed or typed.
    if (search === written.current) return;
    written.current = search;
    setForm(formOfQuery(new URLSearchParams(search)));
  }, [search]);
  useEffect(() => {
    if (!isLinked || query === written.current) return;
    const timer = setTimeout(() => {
      written.current = query;
      navigate(query === "" ? "/backfills/new" : `/backfills/new?${query}`, { replace: true });
    }, SETTLED_MS);
    return () => clearTimeout(timer);
  }, [query, isLinked]);
  const change = useCallback(
    (fields: Partial<CreateForm>) => setForm((before) => ({ ...before, ...fields })),
    [],
  );
  return { form, change, isLinked };
}
