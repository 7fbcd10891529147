import { type ComponentType, type ReactNode, useEffect, useState } from "react";
import { call, unreachable } from "../api/call.ts";
import { Loading } from "../parts/loaded.tsx";
import { Refused } from "../parts/notice.tsx";

type State = { page: ComponentType | undefined; failure?: unknown };

/** How long to wait before a server that did not answer is asked again. */
const AGAIN_MS = 2_000;

/** Where it is remembered that the page was loaded anew for a part that did not come. */
const RELOADED = "pawl-reloaded-for";

/**
 * Whether a part did not come since the page was loaded. Scripts are asked for again, but not the
 * styles that came with them, which other parts may share: only a page that is loaded anew has all.
 */
let isTorn = false;

/** A part of the page that can be asked to load before it is shown. */
export type LazyPage = ComponentType & { load: () => void };

/**
 * A part of the page that is loaded when somebody goes there, and shown as soon as it is: React's
 * own `lazy` would leave the word that it is loading for 300 ms. While the server is away that is
 * said, and the page is loaded anew when the server is back.
 */
export function lazyPage<Name extends string>(
  load: () => Promise<Record<Name, ComponentType>>,
  name: Name,
): LazyPage {
  let known: ComponentType | undefined;
  function LazyPage(): ReactNode {
    const [{ page: Shown, failure }, setState] = useState<State>({ page: known });
    const [isAway, setIsAway] = useState(false);
    useEffect(() => {
      if (Shown !== undefined) return;
      let timer: ReturnType<typeof setTimeout> | undefined;
      let isLeft = false;
      const loaded = (part: Record<Name, ComponentType>): void => {
        sessionStorage.removeItem(RELOADED);
        setState({ page: (known = part[name]) });
      };
      const loadAnew = async (): Promise<void> => {
        const isThere = await isServerThere();
        if (isLeft) return;
        if (isThere) {
          sessionStorage.setItem(RELOADED, name);
          window.location.reload();
        } else {
          setIsAway(true);
          timer = setTimeout(() => void loadAnew(), AGAIN_MS);
        }
      };
      const failed = async (error: unknown): Promise<void> => {
        isTorn = true;
        // The server is there and the part is not: it has another version of the page by now, or
        // really lacks the part, which loading the page anew has not changed then.
        const wasReloaded = sessionStorage.getItem(RELOADED) === name;
        if (wasReloaded && (await isServerThere())) setState({ page: undefined, failure: error });
        else await loadAnew();
      };
      if (isTorn) void loadAnew();
      else load().then(loaded, failed);
      return () => {
        isLeft = true;
        clearTimeout(timer);
      };
    }, [Shown]);
    if (failure !== undefined) throw failure;
    if (Shown !== undefined) return <Shown />;
    return isAway ? <Refused refusal={unreachable()} /> : <Loading />;
  }
  // What does not come is asked for again when it is to be shown, and dealt with there.
  return Object.assign(LazyPage, { load: () => void load().catch(() => undefined) });
}

async function isServerThere(): Promise<boolean> {
  try {
    await call("getSession", {});
    return true;
  } catch {
    return false;
  }
}
