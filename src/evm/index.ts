export {
  type BloomCheck,
  evmLogs,
  type EvmLogs,
  type EvmLogsOptions,
  type LogPage,
} from "./evm-logs.ts";
export type { EvmLog } from "./log-filter.ts";
export type { LogFilter } from "./log-filter.ts";
