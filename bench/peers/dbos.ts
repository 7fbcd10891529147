import { openCounter } from "./open-counter.ts";
import type { Job, Peer } from "./peer.ts";

const APPLICATION = "bench";
const WORKFLOW = "job";
const QUEUE = "jobs";
const WORKER_CONCURRENCY = 100;
const POLL_MS = 10;
const POOL_SIZE = 20;

/** One transaction for many workflows; the package itself enqueues them one by one. */
const ENQUEUE = `
select count(dbos.enqueue_workflow(
  workflow_name => $3,
  queue_name => $4,
  positional_args => array[json_build_object('key', key)],
  application_name => $5
))
from generate_series($1::integer, $2::integer) as key`;

const PENDING = `
select count(*)
from dbos.workflow_status
where status in ('ENQUEUED', 'PENDING')`;

/** DBOS, each job a workflow without steps. */
export const dbos: Peer = {
  name: "DBOS",
  packageName: "@dbos-inc/dbos-sdk",
  server: "PostgreSQL",
  settings:
    `\`workerConcurrency\` ${WORKER_CONCURRENCY}, \`minPollingIntervalMs\` ${POLL_MS}, ` +
    `${POOL_SIZE} connections, jobs added with \`dbos.enqueue_workflow\`, many in a statement`,
  page: 5_000,
  afterDeath: "when a process with the same executor id starts",
  keeps: "kept for ever",

  async startWorker(url, id, work) {
    const { DBOS } = await import("@dbos-inc/dbos-sdk");
    DBOS.setConfig({
      name: APPLICATION,
      systemDatabaseUrl: url,
      systemDatabasePoolSize: POOL_SIZE,
      executorID: `worker-${id}`,
      logLevel: "error",
    });
    DBOS.registerWorkflow(async (job: Job) => work(job), { name: WORKFLOW });
    await DBOS.launch();
    await DBOS.registerQueue(QUEUE, {
      workerConcurrency: WORKER_CONCURRENCY,
      minPollingIntervalMs: POLL_MS,
    });
  },

  async openQueue(url) {
    const { DBOSClient } = await import("@dbos-inc/dbos-sdk");
    const client = await DBOSClient.create({
      systemDatabaseUrl: url,
      applicationName: APPLICATION,
    });
    const { default: pg } = await import("pg");
    const pool = new pg.Pool({ connectionString: url, max: 1 });
    const countPending = await openCounter(url, PENDING);
    return {
      async addMany(first, count) {
        await pool.query(ENQUEUE, [first, first + count - 1, WORKFLOW, QUEUE, APPLICATION]);
      },
      async addOne(job) {
        await client.enqueue({ workflowName: WORKFLOW, queueName: QUEUE }, job);
      },
      countPending,
    };
  },
};
