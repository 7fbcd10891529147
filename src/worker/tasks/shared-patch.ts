/**
 * Has several change the same thing of this process: the first one changes it, and it is changed back when the
 * last one has let go. `patch` answers what changes it back.
 */
export function sharedPatch<Target extends object>(
  patch: (target: Target) => () => void,
): (target: Target) => () => void {
  const patched = new Map<Target, { users: number; restore: () => void }>();
  return (target) => {
    const shared = patched.get(target) ?? { users: 0, restore: patch(target) };
    patched.set(target, shared);
    shared.users++;
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      shared.users--;
      if (shared.users > 0) return;
      patched.delete(target);
      shared.restore();
    };
  };
}
