import type { Locator, Page } from "playwright-core";

/** Stops on the way to anything on a page. */
const TABS_MAX = 150;

/** Goes to something as whoever has no pointer does; fails when it cannot be reached. */
export async function tabTo(page: Page, wanted: Locator): Promise<void> {
  // Looked up once: to find something by its role and name takes longer than all the rest.
  const found = await wanted.elementHandle();
  for (let tabs = 0; tabs < TABS_MAX; tabs++) {
    if (await found?.evaluate((element) => element === document.activeElement)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`${String(wanted)} cannot be reached with the keyboard.`);
}

/** Opens an action's dialog by keyboard, as soon as the action makes sense; the last of several. */
export async function openAction(page: Page, name: string): Promise<Locator> {
  // One that was just left has a button of that name as well.
  await page.getByRole("dialog").waitFor({ state: "detached" });
  const button = page.getByRole("button", { name, exact: true, disabled: false }).last();
  await tabTo(page, button);
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name, exact: true });
  await dialog.waitFor();
  return dialog;
}

/** Has what a dialog asks done by keyboard, and waits until it is accepted. */
export async function confirmAction(page: Page, dialog: Locator, name: string): Promise<void> {
  await tabTo(page, dialog.getByRole("button", { name, exact: true }));
  await page.keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
}

/** Carries out an action by keyboard from its button to its effect being asked for. */
export async function act(page: Page, name: string, reason?: string): Promise<void> {
  const dialog = await openAction(page, name);
  if (reason !== undefined) {
    await tabTo(page, dialog.getByLabel("Reason (for the record)"));
    await page.keyboard.type(reason);
  }
  await confirmAction(page, dialog, name);
}

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
