import type { Store } from "../store/store.ts";
import type { DecisionCause } from "./commit.ts";
import type { Idempotency } from "./commit-loop.ts";
import type { Environment } from "./config.ts";
import type { SaidLimits } from "./budgets.ts";
import { createHmac, hash } from "node:crypto";
import type { Hash } from "../kernel/canonical.ts";

/** How a command comes in. */
export type SubmitOptions<Result> = {
  actor: DecisionCause["actor"];
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

/** How an engine is doing. */
export type EngineStatus = {
  pos: number;
  commits: number;
  queued_jobs: number;
  waiting_claims: number;
  results_refused: number;
  /** Lines that were not kept, and lines that were dropped again, since this server started. */
  log_lines_dropped: number;
  log_lines_expired: number;
  last_error: string | null;
  /** Entities whose controller failed an assertion, with the reason. */
  poisoned: Record<string, string>;
};

/** The hash functions of the platform. */
export const nodeHash: Hash = {
  sha256: (text) => hash("sha256", text, "hex"),
  hmacSha256: (secret, text) => createHmac("sha256", secret).update(text).digest(),
};
