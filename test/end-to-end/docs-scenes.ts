/** What has to be so before the commands of a page can be typed. */
export type Scene = {
  readonly page: string;
  /** What the page names, and what the shell is to put there. */
  readonly places: readonly (readonly [named: string, here: string])[];
  /** Commands before a block of the page, by a text that only this block has. */
  readonly before: Readonly<Record<string, string>>;
};

/** What stands for the machines that pages name. */
export type Surroundings = {
  /** A receiver of webhooks. */
  readonly receiver: string;
  /** A database on PostgreSQL. */
  readonly database: string;
};

/** Of a document on stdin, the value at a path. */
const OF = (path: string): string => `node -p 'JSON.parse(fs.readFileSync(0))${path}'`;
/** The last run of an asset; sensors ask for others meanwhile. */
const runOf = (asset: string): string =>
  `pawl run list --json | ${OF(`.items.find((run) => run.asset_selection.includes("${asset}")).run_id`)}`;
const SYNC = "eth.transfers@network=mainnet,wallet=0x5e3f";
const QUARANTINED = `pawl sync quarantine ${SYNC} --json`;

/** The pages of the guide, in an order in which one project on one server has them all. */
export function guideScenes({ receiver, database }: Surroundings): Scene[] {
  return [
    {
      page: "docs/guide.md",
      places: [
        ["run_abcdefgh", "$run"],
        ["3M8ZQK4T", "$backfill"],
        ["postgres://…", database],
        ["PAWL_TOKEN=pawl_…", "PAWL_TOKEN=$worker_token"],
        ["http://pawl.example:7290", "$url"],
      ],
      before: {
        "pawl logs run_abcdefgh 3": `
          backfill=$(pawl backfill create visits --start 2025-01-01 --end 2025-01-05 --json | ${OF(".backfills[0].backfill_id")})
          pawl backfill watch "$backfill"
          run=$(${runOf("visits")})`,
        "--only missing-or-failed": `
          touch closed
          pawl run start visits --partitions 2025-03-30 --wait || rm closed`,
        "pawl partitions report": `
          printf '%s\\n' 2025-02-01 '{"partition_key":"2025-02-02","metadata":{"rows":17}}' > made.txt
          node fill-database.ts "${database}"`,
        "pawl worker": `worker_token=$(pawl token create worker-1 --verbs work)`,
      },
    },
    {
      page: "docs/guide/checks.md",
      places: [["run_2f6c", "$run"]],
      before: {
        "--checks failed,warned": `
          pawl run start orders --partitions 2025-01-05 --wait
          run=$(${runOf("orders")})`,
      },
    },
    {
      page: "docs/guide/freshness.md",
      places: [],
      before: {
        "pawl partitions summary monthly_sales": `
          pawl backfill create daily_sales monthly_sales --all --wait
          pawl run start daily_sales --partitions 2025-01-05 --wait`,
      },
    },
    { page: "docs/guide/schedules.md", places: [], before: {} },
    {
      page: "docs/guide/sensors.md",
      places: [],
      before: {
        "pawl sensor create arrivals": `
          mkdir -p incoming
          touch incoming/2025-01-05.csv
          pawl partitions add uploads 2025-01-02 2025-01-03 2025-01-05`,
        // A message whose day is not there yet, for which it is tried some times.
        "pawl sensor show arrivals": 'node send-message.ts "$url" msg_42 \'{"day":"2025-01-04"}\'',
        "pawl sensor messages hook": `
          until pawl sensor messages hook --status failed --json | grep -q msg_42; do sleep 1; done
          pawl partitions add uploads 2025-01-04`,
      },
    },
    {
      page: "docs/guide/notifications.md",
      places: [
        ["https://alerts.example/pawl", receiver],
        ["https://hooks.slack.com/services/T000/B000/XXXX", receiver],
      ],
      before: {},
    },
    {
      page: "docs/guide/syncs.md",
      places: [
        [`retry ${SYNC} 371`, `retry ${SYNC} "$first"`],
        [`exclude ${SYNC} 371`, `exclude ${SYNC} "$second"`],
      ],
      before: {
        "pawl sync quarantine": `
          touch bad
          pawl sync repair ${SYNC} --from 17050200 --to 17050400
          until ${QUARANTINED} | ${OF(".items.length")} | grep -q 2; do sleep 0.1; done
          first=$(${QUARANTINED} | ${OF(".items[0].segment_index")})
          second=$(${QUARANTINED} | ${OF(".items[1].segment_index")})
          rm bad`,
      },
    },
    {
      page: "docs/guide/moves.md",
      places: [],
      before: {
        "--dry-run": "node prepare.ts",
        // Once more, with a row in the way.
        "pawl move inspect archive": `
          node prepare.ts "in the way"
          pawl move plan archive
          pawl move start archive
          until pawl move inspect archive --json | grep -q POISONED; do sleep 0.1; done
          until ! pawl move inspect archive --json | grep -qE '"(PENDING|RUNNING|COPYING)"'; do sleep 0.1; done`,
      },
    },
    {
      page: "docs/guide/routing.md",
      places: [
        ["10.0.0.7", "127.0.0.1"],
        ["--port 7291", "--port 0"],
      ],
      before: { "pawl shard serve": "(umask 077 && openssl rand -hex 16 > shard.token)" },
    },
    {
      page: "docs/guide/splits.md",
      places: [["PJV6RGVY", '"$(split_id)"']],
      before: {
        "pawl split plan birch": `split_id() { pawl split list --json | ${OF(".items[0].split_id")}; }`,
        "pawl split ddl": `
          pawl split plan elm --from east --to west --wait
          pawl split start-dual-write "$(split_id)" --wait`,
      },
    },
    {
      page: "docs/operating.md",
      places: [["<token-id>", "$token_id"]],
      before: {
        // Rows are folded anew where no server runs.
        "pawl rebuild": `
          kill "$server"
          wait "$server"`,
        "pawl token revoke": `token_id=$(pawl token create former --verbs read --json | ${OF(".token_id")})`,
      },
    },
  ];
}

/** The page of the first example, which needs no server. */
export const EXAMPLE_SCENE: Scene = {
  page: "examples/sales/README.md",
  places: [
    // It fails, as the page says.
    ["--all --wait", '--all --wait || echo "exit code $?"'],
    ["retry-failed BT79DMP0", 'retry-failed "$orders"'],
    ["resume BT79DMP1", 'resume "$days"'],
    ["watch BT79DMP2", 'watch "$months"'],
  ],
  before: {
    "retry-failed BT79DMP0": `
      pawl backfill list --json > backfills.json
      orders=$(${OF(".items[2].backfill_id")} < backfills.json)
      days=$(${OF(".items[1].backfill_id")} < backfills.json)
      months=$(${OF(".items[0].backfill_id")} < backfills.json)
      sed -i.bak 's/1O4.50/104.50/' inbox/2025-02-11-eu.csv`,
  },
};
