import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { expect, inject } from "vitest";
import { launchChromium } from "./chromium.ts";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/** A page in a real Chromium, and everything that went wrong in it. */
export type Visit = {
  readonly page: Page;
  /** Errors on the console, uncaught ones, broken policies and answers of 500 and above. */
  readonly problems: string[];
};

/** How a visitor comes. */
export type VisitOptions = {
  width?: number;
  height?: number;
  theme?: "light" | "dark";
  /** Answers with these statuses are expected, as those to a refused action are. */
  allowed?: readonly RegExp[];
};

/** One for all files of tests that share a process, with which it ends. */
let chromium: Promise<Browser> | null = null;

async function startChromium(): Promise<Browser> {
  const answer = await fetch(inject("browserDoorUrl"));
  const path = await answer.text();
  if (!answer.ok) throw new Error(path);
  return launchChromium(path);
}

/** Visitors of a file of tests, who share nothing with those of others. */
export class TestBrowser {
  readonly #browser: Browser;
  readonly #visits: { context: BrowserContext; problems: string[] }[] = [];

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  static async open(): Promise<TestBrowser> {
    chromium ??= startChromium();
    return new TestBrowser(await chromium);
  }

  /** Opens an address in a window of its own, without anything that another visit left behind. */
  async visit(url: string, options: VisitOptions = {}): Promise<Visit> {
    const { width = 1280, height = 900, theme = "light", allowed = [] } = options;
    const context = await this.#browser.newContext({
      viewport: { width, height },
      colorScheme: theme,
      reducedMotion: "reduce",
    });
    const page = await context.newPage();
    page.setDefaultTimeout(10_000);
    const problems: string[] = [];
    const note = (text: string): void => {
      if (!allowed.some((pattern) => pattern.test(text))) problems.push(text);
    };
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") {
        note(`${message.text()} ${message.location().url}`);
      }
    });
    page.on("pageerror", (error) => note(String(error)));
    page.on("response", (response) => {
      if (response.status() >= 500) note(`${response.status()} ${response.url()}`);
    });
    this.#visits.push({ context, problems });
    await page.goto(url);
    return { page, problems };
  }

  /** Ends all visits; fails when one of them had problems. Call it after each test. */
  async endVisits(): Promise<void> {
    const visits = this.#visits.splice(0);
    for (const { context } of visits) await context.close();
    expect(visits.flatMap(({ problems }) => problems)).toEqual([]);
  }

  async close(): Promise<void> {
    for (const { context } of this.#visits.splice(0)) await context.close();
  }
}

type Violation = { id: string; help: string; nodes: { target: unknown; failureSummary: string }[] };

/** Fails when axe finds anything on the page, once it is there, that keeps somebody from using it. */
export async function expectAccessible(page: Page, place = page.url()): Promise<void> {
  await page.locator("h1").first().waitFor({ state: "attached" });
  // Evaluated rather than added to the document, whose policy allows no script but its own.
  await page.evaluate(readFileSync(AXE, "utf8"));
  const violations = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(options: object): Promise<{ violations: Violation[] }> };
    };
    // What passes need not be told node by node.
    return (await axe.run({ resultTypes: ["violations"] })).violations;
  });
  const told = violations.map(
    ({ id, help, nodes }) =>
      `${id}: ${help}\n${nodes
        .slice(0, 5)
        .map(({ target, failureSummary }) => `  ${JSON.stringify(target)} ${failureSummary}`)
        .join("\n")}`,
  );
  expect(told, place).toEqual([]);
}

/** Fails when the page is wider than its window. */
export async function expectNoSidewaysScroll(page: Page, place = page.url()): Promise<void> {
  const widths = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    return { scrollWidth, clientWidth };
  });
  expect(widths.scrollWidth, place).toBeLessThanOrEqual(widths.clientWidth);
}
