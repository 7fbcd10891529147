import type { Store } from "../store/store.ts";
import type { Cause } from "./commit.ts";
import type { Idempotency } from "./decide-once.ts";
import type { Environment } from "./environment.ts";
import type { SaidLimits } from "./said-budget.ts";

/** How a command comes in. */
export type SubmitOptions<Result> = {
  actor: Cause["actor"];
  correlationId: string;
  idempotency?: Idempotency<Result> | undefined;
};

/** How the engine is opened. */
export type EngineOptions = {
  store: Store;
  tenantId: string;
  workspaceId: string;
  environment: Environment;
  leaseMs?: number;
  /** How much of what tasks say is kept. */
  saidLimits?: SaidLimits;
};

/** How long a worker may be silent before its tasks are taken back. */
export const LEASE_MS = 15_000;
