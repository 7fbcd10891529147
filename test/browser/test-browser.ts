import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, CDPSession, Page } from "playwright-core";
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
  /** Nobody uses the window after this visit, which does to it what cannot be undone. */
  isLast?: boolean;
};

/** No page of a test lives long enough for optimized code to pay for being compiled. */
const UNOPTIMIZED = "--js-flags=--no-opt --no-maglev";

/** One for all files of tests that share a process, with which it ends. */
let chromium: Promise<Browser> | null = null;

async function startChromium(): Promise<Browser> {
  const answer = await fetch(inject("browserDoorUrl"));
  const path = await answer.text();
  if (!answer.ok) throw new Error(path);
  return launchChromium(path, [UNOPTIMIZED]);
}

/**
 * A window with one tab. Visitors use it one after the other: to open a window takes Chromium a second
 * of a core, several times as long as to load the page in one that is open.
 */
type Window = { readonly page: Page; readonly session: CDPSession };

/** Windows that nobody uses; nothing is left in them of who did. */
const free: Window[] = [];

async function openWindow(browser: Browser): Promise<Window> {
  const context = await browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(180_000);
  return { page, session: await context.newCDPSession(page) };
}

/** Makes a window as new: no cookies, nothing stored, nowhere to go back to, no document that runs. */
async function clearWindow({ page, session }: Window): Promise<void> {
  page.removeAllListeners();
  await page.unrouteAll({ behavior: "ignoreErrors" });
  const { origin } = new URL(page.url());
  if (origin !== "null") await page.evaluate(() => sessionStorage.clear());
  // Of the same host as all sites of tests: their process and what it has compiled stay.
  await page.goto(`${inject("browserDoorUrl")}/empty`);
  await page.context().clearCookies();
  await page.context().clearPermissions();
  if (origin !== "null") {
    await session.send("Storage.clearDataForOrigin", { origin, storageTypes: "all" });
  }
  await session.send("Page.resetNavigationHistory");
}

/** Visitors of a file of tests, who share nothing with those of others. */
export class TestBrowser {
  readonly #browser: Browser;
  readonly #visits: { window: Window; problems: string[]; isLast: boolean }[] = [];

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  static async open(): Promise<TestBrowser> {
    chromium ??= startChromium();
    return new TestBrowser(await chromium);
  }

  /** Opens an address in a window of its own, without anything that another visit left behind. */
  async visit(url: string, options: VisitOptions = {}): Promise<Visit> {
    const { width = 1280, height = 900, theme = "light", allowed = [], isLast = false } = options;
    const window = free.pop() ?? (await openWindow(this.#browser));
    const { page } = window;
    const problems: string[] = [];
    this.#visits.push({ window, problems, isLast });
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
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
    await page.goto(url);
    return { page, problems };
  }

  /** Ends all visits; fails when one of them had problems. Call it after each test. */
  async endVisits(): Promise<void> {
    const visits = this.#visits.splice(0);
    for (const { window, isLast } of visits) await leave(window, isLast);
    expect(visits.flatMap(({ problems }) => problems)).toEqual([]);
  }

  async close(): Promise<void> {
    for (const { window } of this.#visits.splice(0)) await leave(window, false);
  }
}

/** Has a window ready for the next visitor; closes one that cannot be made as new. */
async function leave(window: Window, isLast: boolean): Promise<void> {
  const isClear = !isLast && (await clearWindow(window).then(succeeded, failed));
  if (isClear) free.push(window);
  else await window.page.context().close();
}

const succeeded = () => true;
const failed = () => false;

type Violation = { id: string; help: string; nodes: { target: unknown; failureSummary: string }[] };

/** Fails when axe finds anything on the page, once it is there, that keeps somebody from using it. */
export async function expectAccessible(page: Page, place = page.url()): Promise<void> {
  await page.locator("h1").first().waitFor({ state: "attached" });
  const isThere = await page.evaluate(() => "axe" in globalThis);
  // Evaluated rather than added to the document, whose policy allows no script but its own.
  if (!isThere) await page.evaluate(readFileSync(AXE, "utf8"));
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
