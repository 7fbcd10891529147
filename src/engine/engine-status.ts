/** How an engine is doing. */
export type EngineStatus = {
  pos: number;
  commits: number;
  queued_jobs: number;
  waiting_claims: number;
  results_refused: number;
  last_error: string | null;
  /** Entities whose controller failed an assertion, with the reason. */
  poisoned: Record<string, string>;
};
