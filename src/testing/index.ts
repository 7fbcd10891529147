/* What a test imports from "pawl/test". Every name is here on purpose, and stays once released. */

export { evaluate, tick } from "./automation.ts";
export { fetchRange } from "./fetch-range.ts";
export { materialize } from "./materialize.ts";
export { testContext } from "./test-context.ts";

export type { Evaluated, EvaluateOptions, Ticked, TickOptions } from "./automation.ts";
export type { FetchedRange, FetchRangeOptions } from "./fetch-range.ts";
export type { Materialized, MaterializeOptions } from "./materialize.ts";
export type {
  TestCall,
  TestFailure,
  TestFetch,
  TestLog,
  TestOptions,
  TestProgress,
} from "./records.ts";
export type { TestContext, TestContextOptions } from "./test-context.ts";
export type { TestUpstream, TestUpstreamPartition } from "./upstream.ts";
