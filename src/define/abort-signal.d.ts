/**
 * The platform's signal, by name only: these layers are checked without the types of Node and of browsers,
 * and hand a signal on without looking at it. Where those types are, as for users, it is theirs.
 */
interface AbortSignal {
  readonly aborted: boolean;
}
