import { type Job, jobsFrom, type Peer } from "./peer.ts";

const QUEUE = "jobs";
const CONCURRENCY = 100;

function connectionOf(url: string): { host: string; port: number } {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) };
}

/** BullMQ on a Redis that has every write on disk before it answers. */
export const bullMq: Peer = {
  name: "BullMQ",
  packageName: "bullmq",
  server: "Redis",
  settings: `\`concurrency\` ${CONCURRENCY}, jobs added with \`addBulk\``,
  page: 1_000,
  afterDeath: "after about 30 s",
  keeps: "kept for ever",

  async startWorker(url, _id, work) {
    const { Worker } = await import("bullmq");
    const worker = new Worker<Job, void>(QUEUE, async (job) => work(job.data), {
      connection: connectionOf(url),
      concurrency: CONCURRENCY,
    });
    worker.on("error", (error: unknown) => console.error("BullMQ:", error));
    await worker.waitUntilReady();
  },

  async openQueue(url) {
    const { Queue } = await import("bullmq");
    const queue = new Queue<Job>(QUEUE, { connection: connectionOf(url) });
    await queue.waitUntilReady();
    return {
      async addMany(first, count) {
        await queue.addBulk(jobsFrom(first, count).map((data) => ({ name: "job", data })));
      },
      async addOne(job) {
        await queue.add("job", job);
      },
      async countPending() {
        const counts = await queue.getJobCounts("wait", "active", "delayed", "prioritized");
        return Object.values(counts).reduce((sum, count) => sum + count, 0);
      },
    };
  },
};
