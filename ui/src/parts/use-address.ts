import { usePathname, useSearch } from "wouter/use-browser-location";

/**
 * The query of the address as the browser has it: the router's own is decoded twice, and a name may
 * hold a percent sign.
 */
export function useAddressQuery(): URLSearchParams {
  return new URLSearchParams(useSearch());
}

/** The name in an address such as `/syncs/a%2Fb`, decoded once, which the router does not do. */
export function useAddressName(place = 2): string {
  const raw = usePathname().split("/")[place] ?? "";
  try {
    return decodeURIComponent(raw);
  } catch {
    return raw;
  }
}
