import type { Locator, Page } from "playwright-core";
import { tabTo } from "./keyboard.ts";

/** Presses a button or opens what a summary hides, as somebody without a pointer does. */
export async function pressByKeyboard(page: Page, target: Locator): Promise<void> {
  await tabTo(page, target);
  await page.keyboard.press("Enter");
}

/** Writes into a field, in place of what is there, as somebody without a pointer does. */
export async function typeInto(page: Page, target: Locator, text: string): Promise<void> {
  await tabTo(page, target);
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type(text);
}
