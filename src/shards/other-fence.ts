import { PawlError } from "../core/errors.ts";
import type { Fence, FenceStand } from "./shard.ts";

/** Says that a fence does not stand as it has to, so that rows behind it stay. */
export function otherFence(wanted: FenceStand, found: FenceStand | undefined): PawlError {
  const spelled = ({ state, epoch }: Pick<Fence, "state" | "epoch">): string =>
    `${state} under epoch ${epoch}`;
  const now = found === undefined ? "not there" : spelled(found);
  return new PawlError(
    "STATE_ILLEGAL",
    `No rows of ${wanted.tenant} were removed: its fence is ${now}, and not ${spelled(wanted)}. The ` +
      "tenant has come back since, or somebody has changed its fence.",
    {
      details: { tenant: wanted.tenant, epoch: found?.epoch ?? null, state: found?.state ?? null },
    },
  );
}
