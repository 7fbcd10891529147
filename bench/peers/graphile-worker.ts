import { openCounter } from "./open-counter.ts";
import { type Job, jobsFrom, type Peer } from "./peer.ts";

const TASK = "job";
const CONCURRENT_JOBS = 24;
const LOCAL_QUEUE = 500;

const PENDING = "select count(*) from graphile_worker.jobs";

/** Graphile Worker as its page on performance sets it up. */
export const graphileWorker: Peer = {
  name: "graphile-worker",
  packageName: "graphile-worker",
  server: "PostgreSQL",
  settings:
    `${CONCURRENT_JOBS} jobs at once, \`localQueue\` of ${LOCAL_QUEUE}, ` +
    "`completeJobBatchDelay` and `failJobBatchDelay` 0, jobs added with `addJobs`",
  page: 5_000,
  afterDeath: "after 4 h",
  keeps: "deleted at once",

  async startWorker(url, _id, work) {
    const { Logger, run } = await import("graphile-worker");
    await run({
      preset: {
        worker: {
          connectionString: url,
          concurrentJobs: CONCURRENT_JOBS,
          maxPoolSize: CONCURRENT_JOBS + 1,
          localQueue: { size: LOCAL_QUEUE },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
        },
      },
      logger: new Logger(() => () => {}),
      noHandleSignals: true,
      crontab: "",
      taskList: { [TASK]: (payload) => work(payload as Job) },
    });
  },

  async openQueue(url) {
    const { Logger, makeWorkerUtils } = await import("graphile-worker");
    const logger = new Logger(() => () => {});
    const utils = await makeWorkerUtils({ connectionString: url, logger });
    const countPending = await openCounter(url, PENDING);
    return {
      async addMany(first, count) {
        await utils.addJobs(
          jobsFrom(first, count).map((payload) => ({ identifier: TASK, payload })),
        );
      },
      async addOne(job) {
        await utils.addJob(TASK, job);
      },
      countPending,
    };
  },
};
