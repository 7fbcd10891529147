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
