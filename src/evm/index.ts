export {
  type BloomCheck,
  evmLogs,
  type EvmLogs,
  type EvmLogsOptions,
  type LogPage,
} from "./evm-logs.ts";
export type { EvmLog, LogFilter } from "./log-filter.ts";
