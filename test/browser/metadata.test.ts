import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type ServedProject, serveProject } from "./served-project.ts";
import { expectAccessible, expectNoSidewaysScroll, TestBrowser } from "./test-browser.ts";

const PROJECT = `
  import { asset, definePawl, md } from "pawl";
  export default definePawl({
    assets: [
      asset("orders", {
        materialize: () => ({
          metadata: {
            rows: md.number(1234567, { unit: "rows" }),
            file: md.link("https://files.example/orders.csv", "orders.csv"),
            trap: md.link("javascript:alert(1)", "click me"),
            regions: md.table([{ region: "eu", rows: 5 }, { region: "<b>us</b>", rows: 7 }]),
            notes: md.markdown("# Summary\\n\\n- **two** rows\\n- [more](https://more.example) <img src=x>"),
            schema: md.json({ id: "int" }),
            plain: "as it is",
          },
        }),
      }),
    ],
  });
`;

let site: ServedProject;
let browser: TestBrowser;
let runId: string;

beforeAll(async () => {
  [site, browser] = await Promise.all([serveProject(PROJECT), TestBrowser.open()]);
  const { client } = site;
  ({ run_id: runId } = await client.call("requestRun", { body: { assets: ["orders"] } }));
  for await (const { type } of client.follow({ entity: runId })) if (type === "RunFinished") break;
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await site.stop();
});

test.each([
  ["the page of a partition", () => "/assets/orders", "Metadata of the last materialization"],
  ["the page of a task", () => `/runs/${runId}/tasks/0`, "Metadata"],
])("%s shows metadata as what it says it is", async (_name, path, label) => {
  const { page } = await browser.visit(`${site.url}${path()}`);
  const shown = page.getByRole("region", { name: label, exact: true });
  await shown.getByText("1,234,567 rows").waitFor();
  const file = shown.getByRole("link", { name: "orders.csv" });
  expect(await file.getAttribute("href")).toBe("https://files.example/orders.csv");
  await shown.getByText("click me (javascript:alert(1))").waitFor();
  const table = shown.getByRole("region", { name: "regions" });
  expect(await table.getByRole("row").allInnerTexts()).toHaveLength(3);
  await table.getByText("<b>us</b>").waitFor();
  await shown.getByRole("listitem").getByText("two").waitFor();
  await shown.getByText("<img src=x>").waitFor();
  expect(await shown.getByRole("link", { name: "more" }).getAttribute("href")).toBe(
    "https://more.example",
  );
  await shown.getByText("as it is").waitFor();
  expect(await shown.getByRole("link").count()).toBe(2);
  await expectAccessible(page);
});

test("metadata fits a phone, in the dark", async () => {
  const options = { theme: "dark", width: 390, height: 800 } as const;
  const { page } = await browser.visit(`${site.url}/runs/${runId}/tasks/0`, options);
  await page.getByText("1,234,567 rows").waitFor();
  await expectAccessible(page);
  await expectNoSidewaysScroll(page);
});
