/** A line of the sidebar: a page, or a heading with pages below it. */
export type SidebarEntry = {
  readonly text: string;
  readonly link?: string;
  readonly collapsed?: boolean;
  readonly items?: readonly SidebarEntry[];
};

const page = (text: string, path: string): SidebarEntry => ({ text, link: `/${path}` });

/** The pages that are written by hand, in the order in which they are best read. */
export const WRITTEN: readonly SidebarEntry[] = [
  {
    text: "Start",
    items: [
      page("What it is", "index.md"),
      page("Five minutes", "start.md"),
      page("Concepts", "concepts.md"),
      page("A longer tour", "readme.md"),
    ],
  },
  {
    text: "Recipes",
    items: [
      page("All recipes", "recipes/index.md"),
      page("Unit tests", "recipes/unit-tests.md"),
      page("In your own service", "recipes/node-service.md"),
      page("Adopt what is there", "recipes/adopt.md"),
      page("Fill what is missing", "recipes/fill-missing.md"),
      page("Upstream", "recipes/upstream.md"),
      page("Commands, Python, SQL, dbt", "recipes/other-languages.md"),
      page("Metadata", "recipes/metadata.md"),
      page("Checks", "recipes/checks.md"),
      page("Slack, Teams, Discord", "recipes/notifications.md"),
      page("Logs", "recipes/logs.md"),
      page("Schedules and sensors", "recipes/schedules-sensors.md"),
      page("Sync an API or a chain", "recipes/sync.md"),
      page("Move and split shards", "recipes/shards.md"),
      page("Many machines", "recipes/many-machines.md"),
    ],
  },
  {
    text: "Coming from",
    items: [
      page("Dagster", "coming-from/dagster.md"),
      page("Airflow", "coming-from/airflow.md"),
      page("Temporal", "coming-from/temporal.md"),
      page("BullMQ", "coming-from/bullmq.md"),
    ],
  },
  {
    text: "Guide",
    items: [
      page("Assets, partitions, backfills", "guide.md"),
      page("Schedules", "guide/schedules.md"),
      page("Sensors", "guide/sensors.md"),
      page("Notifications", "guide/notifications.md"),
      page("Freshness", "guide/freshness.md"),
      page("Checks", "guide/checks.md"),
      page("Testing", "guide/testing.md"),
      page("Embedding", "guide/embedding.md"),
      page("Other languages", "guide/other-languages.md"),
      page("Range syncs", "guide/syncs.md"),
      page("Moves", "guide/moves.md"),
      page("Live splits", "guide/splits.md"),
      page("Routing", "guide/routing.md"),
      page("The page", "guide/page.md"),
    ],
  },
  {
    text: "Operation",
    items: [
      page("Operating", "operating.md"),
      page("Errors", "errors.md"),
      page("What is legal when", "commands.md"),
      page("Benchmarks", "benchmarks.md"),
    ],
  },
  {
    text: "Examples",
    items: [
      page("Sales", "examples/sales/index.md"),
      page("Wallet sync", "examples/wallet-sync/index.md"),
      page("Live split", "examples/live-split/index.md"),
      page("Python worker", "examples/python-worker/index.md"),
    ],
  },
];

/** Pages for who wants to know how it is built. */
export const INSIDE: readonly SidebarEntry[] = [
  page("Architecture", "architecture.md"),
  page("Promises", "invariants.md"),
  page("Contributing", "contributing.md"),
  page("Changes", "changelog.md"),
];
