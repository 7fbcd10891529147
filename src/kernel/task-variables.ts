/**
 * What the environment of a command tells it about its task, by what it is. Here, because whoever
 * reads settings from the environment must not take these for settings: a task may call `pawl`.
 */
export const TASK_VARIABLES = {
  asset: "PAWL_ASSET",
  attempt: "PAWL_ATTEMPT",
  checkpoint: "PAWL_CHECKPOINT",
  config: "PAWL_CONFIG",
  context: "PAWL_CONTEXT",
  partition: "PAWL_PARTITION",
  partitions: "PAWL_PARTITIONS",
  runId: "PAWL_RUN_ID",
  values: "PAWL_VALUES",
  windowEnd: "PAWL_WINDOW_END",
  windowStart: "PAWL_WINDOW_START",
} as const;

/** What the variable of a dimension begins with: `PAWL_VALUE_REGION`. */
const VALUE_PREFIX = "PAWL_VALUE_";

const NAMES: ReadonlySet<string> = new Set(Object.values(TASK_VARIABLES));

/** Whether a variable tells a command about its task. */
export function isTaskVariable(variable: string): boolean {
  return NAMES.has(variable) || variable.startsWith(VALUE_PREFIX);
}

/** The variable that has the value of a dimension: capitals, and `_` for what names cannot have. */
export function valueVariable(dimension: string): string {
  return VALUE_PREFIX + dimension.toUpperCase().replaceAll(/[^A-Z0-9_]/g, "_");
}
