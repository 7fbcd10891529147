import { openCounter } from "./open-counter.ts";
import { type Job, jobsFrom, type Peer } from "./peer.ts";

const QUEUE = "jobs";
const BATCH = 1_000;
const LOCAL_CONCURRENCY = 2;

const PENDING = `
select count(*)
from pgboss.job
where name = $1 and state < 'completed'`;

async function openBoss(url: string) {
  const { PgBoss } = await import("pg-boss");
  const boss = new PgBoss({ connectionString: url, useListenNotify: true });
  boss.on("error", (error: unknown) => console.error("pg-boss:", error));
  await boss.start();
  await boss.createQueue(QUEUE, { notify: true });
  return boss;
}

/** pg-boss with batches, bursts and notifications. */
export const pgBoss: Peer = {
  name: "pg-boss",
  packageName: "pg-boss",
  server: "PostgreSQL",
  settings:
    `\`batchSize\` ${BATCH.toLocaleString("en")}, \`localConcurrency\` ${LOCAL_CONCURRENCY}, \`burstWhenBatchFull\`, ` +
    "`useListenNotify`, jobs added with `insert`",
  page: 5_000,
  afterDeath: "after 15 min",
  keeps: "kept for 7 days",

  async startWorker(url, _id, work) {
    const boss = await openBoss(url);
    const options = {
      batchSize: BATCH,
      localConcurrency: LOCAL_CONCURRENCY,
      burstWhenBatchFull: true,
    };
    await boss.work<Job>(QUEUE, options, async (jobs: { data: Job }[]) => {
      await Promise.all(jobs.map(async ({ data }) => work(data)));
    });
  },

  async openQueue(url) {
    const boss = await openBoss(url);
    const countPending = await openCounter(url, PENDING, [QUEUE]);
    return {
      async addMany(first, count) {
        await boss.insert(
          QUEUE,
          jobsFrom(first, count).map((data) => ({ data })),
        );
      },
      async addOne(job) {
        await boss.send(QUEUE, job);
      },
      countPending,
    };
  },
};
