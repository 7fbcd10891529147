import type {
  Digest,
  Fence,
  Guard,
  ReadAnswer,
  ReadRequest,
  Shard,
} from "../../src/shards/shard.ts";

/** The two shards of a split. */
export type Pair = { source: Shard; target: Shard };

/**
 * A way in which a split could be wrong, as a wrapper of shards, so that it can be tried on every
 * engine. `notes` is kept over crashes. `outside` wraps what a coordinator sees, so that its own
 * calls can be interleaved; `inside` changes what a shard does with a call.
 */
export type Variant = {
  readonly name: string;
  readonly outside?: (pair: Pair, notes: Record<string, string>) => Pair;
  readonly inside?: (shard: Shard, notes: Record<string, string>) => Shard;
};

/** A shard with some of its methods replaced. */
export function replacing(shard: Shard, methods: Partial<Shard>): Shard {
  return new Proxy(shard, {
    get(on, name) {
      const own = methods[name as keyof Shard];
      if (own !== undefined) return own;
      const value = on[name as keyof Shard];
      return typeof value === "function" ? (value as () => unknown).bind(on) : value;
    },
  });
}

const both = (pair: Pair, wrap: (shard: Shard) => Shard): Pair => ({
  source: wrap(pair.source),
  target: wrap(pair.target),
});

const NOTHING: Digest = { rows: 0, digest: "" };

/** Compares nothing. */
export const NO_VERIFICATION: Variant = {
  name: "no verification",
  inside: (shard) =>
    replacing(shard, {
      read: async (request) => {
        const answer = await shard.read(request);
        return { ...answer, changed: answer.changed === null ? null : NOTHING };
      },
      apply: async (request) => shard.apply({ ...request, changed: null }),
      digest: async (range) => ({ ...NOTHING, position: (await shard.digest(range)).position }),
    }),
};

const SKIPS_FAST_FORWARD: Variant = {
  name: "skips the changes that come with a chunk",
  inside: (shard) =>
    replacing(shard, {
      read: async (request) => {
        const answer = await shard.read(request);
        return request.chunk === null ? answer : { ...answer, changes: [], complete: true };
      },
    }),
};

const TWO_SNAPSHOTS: Variant = {
  name: "chunk and position from two snapshots",
  outside: (pair) => {
    const read = async (shard: Shard, request: ReadRequest): Promise<ReadAnswer> => {
      if (request.chunk === null) return shard.read(request);
      const { chunk } = await shard.read({ ...request, from: null });
      return { ...(await shard.read({ ...request, chunk: null })), chunk };
    };
    return both(pair, (shard) =>
      replacing(shard, { read: async (request) => read(shard, request) }),
    );
  },
};

/** More changes than there are. */
const ALL = 1_000_000;

/** A position stands for the greatest id that was seen by then, as if ids were given out in order. */
const ID_AFTER_LAST: Variant = {
  name: "changes with an id greater than the last one",
  outside: ({ source, target }, notes) => {
    const seenBy = (position: string): bigint => BigInt(notes[`seen ${position}`] ?? "0");
    const read = async (request: ReadRequest): Promise<ReadAnswer> => {
      const first = notes["first"] ?? request.from;
      const answer = await source.read({
        ...request,
        from: first ?? null,
        after_id: null,
        changesMax: ALL,
      });
      notes["first"] ??= answer.position;
      const { position, through_id } = answer;
      notes[`seen ${position}`] = through_id ?? "0";
      const after = request.from === null ? ALL : seenBy(request.from);
      const last = BigInt(request.after_id ?? after);
      const left = answer.changes.filter(({ id }) => BigInt(id) > last);
      const changes = left.slice(0, request.changesMax);
      const complete = changes.length === left.length;
      const through = complete ? through_id : (changes.at(-1)?.id ?? null);
      const changed = complete && answer.changed !== null ? NOTHING : null;
      return { ...answer, changes, complete, through_id: through, changed };
    };
    const apply: Shard["apply"] = async (request) => target.apply({ ...request, changed: null });
    return { source: replacing(source, { read }), target: replacing(target, { apply }) };
  },
};

const NO_WAITING: Variant = {
  name: "stops writes only after the last drain",
  outside: (pair) => {
    const late = (shard: Shard): Shard => {
      let stop: (() => Promise<void>) | null = null;
      return replacing(shard, {
        closeFences: async () => undefined,
        holdFences: async (guard, tenants) => {
          stop = async () => {
            stop = null;
            await shard.closeFences(guard, tenants, { waitMs: 1_000, holdMs: 60_000 });
            await shard.holdFences(guard, tenants);
          };
        },
        // Once the fences are held there is one more look at the source, the last.
        read: async (request) => {
          const answer = await shard.read(request);
          await stop?.();
          return answer;
        },
      });
    };
    return both(pair, late);
  },
};

const STUCK_CURSOR: Variant = {
  name: "does not pass changes of other tenants",
  inside: (shard) =>
    replacing(shard, {
      read: async (request) => {
        const answer = await shard.read(request);
        if (answer.complete) return answer;
        const through_id = answer.changes.at(-1)?.id ?? request.after_id ?? "0";
        return { ...answer, through_id };
      },
    }),
};

const NO_HOLD: Variant = {
  name: "commit record without holding the fences",
  inside: (shard) => replacing(shard, { holdFences: async () => undefined }),
};

const OPENS_FIRST: Variant = {
  name: "opens the target before the source has moved",
  outside: ({ source, target }) => {
    let moved: (() => Promise<void>) | null = null;
    const setFences = async (
      guard: Guard,
      fences: readonly Omit<Fence, "until">[],
    ): Promise<void> => {
      if (fences.some(({ state }) => state === "moved")) {
        moved = async () => source.setFences(guard, fences);
        return;
      }
      await source.setFences(guard, fences);
    };
    const open: Shard["setFences"] = async (guard, fences) => {
      await target.setFences(guard, fences);
      const after = moved;
      moved = null;
      await after?.();
    };
    return {
      source: replacing(source, { setFences }),
      target: replacing(target, { setFences: open }),
    };
  },
};

const NOT_FENCED: Variant = {
  name: "a stale coordinator is not refused",
  inside: (shard, notes) => {
    const fresh = <Given extends { guard: Guard }>(given: Given): Given => ({
      ...given,
      guard: current(given.guard),
    });
    const current = (guard: Guard): Guard => ({ ...guard, token: Number(notes["token"] ?? 0) });
    return replacing(shard, {
      take: async (guard) => {
        notes["token"] = String(Math.max(guard.token, Number(notes["token"] ?? 0)));
        await shard.take(current(guard));
      },
      apply: async (request) => shard.apply(fresh(request)),
      setFences: async (guard, fences) => shard.setFences(current(guard), fences),
      closeFences: async (guard, tenants, times) =>
        shard.closeFences(current(guard), tenants, times),
      holdFences: async (guard, tenants) => shard.holdFences(current(guard), tenants),
      dropFences: async (guard, tenants) => shard.dropFences(current(guard), tenants),
      dropStream: async (guard, stream) => shard.dropStream(current(guard), stream),
      remove: async (guard, range, options) => shard.remove(current(guard), range, options),
    });
  },
};

/** Every way of being wrong that the suites must find. */
export const VARIANTS = {
  SKIPS_FAST_FORWARD,
  TWO_SNAPSHOTS,
  ID_AFTER_LAST,
  NO_WAITING,
  STUCK_CURSOR,
  NO_HOLD,
  OPENS_FIRST,
  NOT_FENCED,
  NO_VERIFICATION,
} as const;

/** Two variants at once. */
export function combined(first: Variant, second: Variant): Variant {
  return {
    name: `${first.name}, ${second.name}`,
    outside: (pair, notes) => {
      const once = first.outside?.(pair, notes) ?? pair;
      return second.outside?.(once, notes) ?? once;
    },
    inside: (shard, notes) => {
      const once = first.inside?.(shard, notes) ?? shard;
      return second.inside?.(once, notes) ?? once;
    },
  };
}
