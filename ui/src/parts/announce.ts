type Listener = (message: string) => void;

const listeners = new Set<Listener>();

/** Says something at the foot of the page, to those who look and to those who listen. */
export function announce(message: string): void {
  for (const listener of listeners) listener(message);
}

/** Calls back with everything that is said; answers a function that ends it. */
export function onAnnounce(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
