import type { Locator, Page } from "playwright-core";

/** The colour of a map's picture at a place of its box: red, green, blue and how opaque. */
export function colourAt(map: Locator, x: number, y: number): Promise<number[]> {
  return map.locator("canvas").evaluate(
    async (canvas: HTMLCanvasElement, [left, top]) => {
      // A picture is drawn in the frame after a scroll.
      for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
      const copy = new OffscreenCanvas(1, 1).getContext("2d");
      copy?.drawImage(canvas, -left, -top);
      return [...(copy?.getImageData(0, 0, 1, 1).data ?? [])];
    },
    [Math.floor(x), Math.floor(y)] as const,
  );
}

/** Pictures a second that the page shows while something is done with it. */
export async function framesWhile(page: Page, act: () => Promise<void>): Promise<number> {
  await page.evaluate(() => {
    const counted = { frames: 0, started: performance.now(), isOver: false };
    Object.assign(globalThis, { counted });
    const count = (): void => {
      counted.frames += 1;
      if (!counted.isOver) requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
  });
  await act();
  return page.evaluate(() => {
    const { counted } = globalThis as unknown as {
      counted: { frames: number; started: number; isOver: boolean };
    };
    counted.isOver = true;
    return (counted.frames / (performance.now() - counted.started)) * 1_000;
  });
}
