import { type ComponentType, type ReactNode, useEffect, useState } from "react";
import { Loading } from "../parts/loaded.tsx";

type State = { page: ComponentType | undefined; failure?: unknown };

/**
 * A part of the page that is loaded when somebody goes there, and shown as soon as it is: React's
 * own `lazy` would leave the word that it is loading for 300 ms.
 */
export function lazyPage<Name extends string>(
  load: () => Promise<Record<Name, ComponentType>>,
  name: Name,
): ComponentType {
  let known: ComponentType | undefined;
  return function LazyPage(): ReactNode {
    const [{ page: Shown, failure }, setState] = useState<State>({ page: known });
    useEffect(() => {
      if (Shown !== undefined) return;
      load().then(
        (part) => setState({ page: (known = part[name]) }),
        (error: unknown) => setState({ page: undefined, failure: error }),
      );
    }, [Shown]);
    if (failure !== undefined) throw failure;
    return Shown === undefined ? <Loading /> : <Shown />;
  };
}
