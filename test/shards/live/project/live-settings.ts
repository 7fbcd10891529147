/** The name of the variable that says where the shards of a live test are. */
export const LIVE_SETTINGS = "LIVE_SPLIT_SHARDS";

/** Where a shard of a live test is. */
export type LiveAddress =
  | { readonly type: "sqlite"; readonly file: string }
  | { readonly type: "postgres"; readonly connectionString: string };

/** The shards of a live test, by name: tenants begin on the first of them. */
export type LiveShards = { readonly east: LiveAddress; readonly west: LiveAddress };

/** A shard of a live test. */
export type LiveShardName = keyof LiveShards;

/** The shards that the environment names. */
export function shardsFromEnvironment(env: NodeJS.ProcessEnv): LiveShards {
  return JSON.parse(env[LIVE_SETTINGS] ?? "{}") as LiveShards;
}
