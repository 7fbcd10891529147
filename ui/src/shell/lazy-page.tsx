import { type ComponentType, type ReactNode, useEffect, useState } from "react";
import { call, unreachable } from "../api/call.ts";
import { Loading } from "../parts/loaded.tsx";
import { Refused } from "../parts/notice.tsx";

type State = { page: ComponentType | undefined; failure?: unknown };

/** How long to wait before a part that did not come is asked for again. */
const AGAIN_MS = 2_000;

/** Where it is remembered that the page was loaded anew for a part that did not come. */
const RELOADED = "pawl-reloaded-for";

/**
 * A part of the page that is loaded when somebody goes there, and shown as soon as it is: React's
 * own `lazy` would leave the word that it is loading for 300 ms. While the server is away that is
 * said, and the part comes when the server does.
 */
export function lazyPage<Name extends string>(
  load: () => Promise<Record<Name, ComponentType>>,
  name: Name,
): ComponentType {
  let known: ComponentType | undefined;
  return function LazyPage(): ReactNode {
    const [{ page: Shown, failure }, setState] = useState<State>({ page: known });
    const [isAway, setIsAway] = useState(false);
    const [turn, setTurn] = useState(0);
    useEffect(() => {
      if (Shown !== undefined) return;
      let timer: ReturnType<typeof setTimeout> | undefined;
      const again = (): void => {
        setIsAway(true);
        timer = setTimeout(() => setTurn((before) => before + 1), AGAIN_MS);
      };
      const loaded = (part: Record<Name, ComponentType>): void => {
        sessionStorage.removeItem(RELOADED);
        setState({ page: (known = part[name]) });
      };
      const failed = async (error: unknown): Promise<void> => {
        if (!(await isServerThere())) again();
        else if (sessionStorage.getItem(RELOADED) === name) {
          setState({ page: undefined, failure: error });
        } else {
          // The server is there and the part is not: it has another version of the page by now, or
          // the browser remembers that it did not get this one.
          sessionStorage.setItem(RELOADED, name);
          window.location.reload();
        }
      };
      load().then(loaded, failed);
      return () => clearTimeout(timer);
    }, [Shown, turn]);
    if (failure !== undefined) throw failure;
    if (Shown !== undefined) return <Shown />;
    return isAway ? <Refused refusal={unreachable()} /> : <Loading />;
  };
}

async function isServerThere(): Promise<boolean> {
  try {
    await call("getSession", {});
    return true;
  } catch {
    return false;
  }
}
