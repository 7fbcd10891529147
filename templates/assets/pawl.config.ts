import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { asset, daily, definePawl } from "pawl";

const data = process.env["DATA_DIR"] ?? join(import.meta.dirname, "data");
const days = daily({ start: "2026-01-01" });

/** One file a day; a real one would fetch the day's visits from somewhere. */
export const visits = asset("visits", {
  description: "Visits of a day",
  partitions: days,
  materialize: async ({ partition }) => {
    const count = 100 + (Number(partition.replaceAll("-", "")) % 37);
    await mkdir(join(data, "visits"), { recursive: true });
    await writeFile(join(data, "visits", `${partition}.json`), JSON.stringify({ count }));
    return { metadata: { count } };
  },
});

/** Made from the visits of the same day, always after them. */
export const report = asset("report", {
  description: "A sentence about the day",
  partitions: days,
  upstream: [visits],
  materialize: async (context) => {
    const { partition } = context;
    const text = await readFile(join(data, "visits", `${partition}.json`), "utf8");
    const { count } = JSON.parse(text) as { count: number };
    await mkdir(join(data, "report"), { recursive: true });
    await writeFile(join(data, "report", `${partition}.txt`), `${count} visits\n`);
    context.log(`${partition}: ${count} visits`);
  },
});

export default definePawl({ assets: [visits, report] });
