import { expect, test } from "vitest";
import { isOneSpot, moved, onScreen, textOfView, viewOf, viewOfText, zoomed } from "./view";

const SIZE = { width: 800, height: 600 };

test("all spots are inside the view that shows them", () => {
  const spots = [
    { x: 10, y: 20 },
    { x: 30, y: 21 },
    { x: 12, y: 22 },
  ];
  const view = viewOf(spots, SIZE);
  for (const spot of spots) {
    const { x, y } = onScreen(view, SIZE, spot);
    expect(x).toBeGreaterThan(0);
    expect(x).toBeLessThan(SIZE.width);
    expect(y).toBeGreaterThan(0);
    expect(y).toBeLessThan(SIZE.height);
  }
});

test("one spot is in the middle, and none shows the world", () => {
  const spot = { x: 137, y: 86 };
  expect(onScreen(viewOf([spot, spot], SIZE), SIZE, spot)).toEqual({ x: 400, y: 300 });
  expect(viewOf([], SIZE)).toEqual({ x: 128, y: 128, zoom: 1 });
});

test("the spot below the pointer stays there while the zoom changes", () => {
  const view = { x: 100, y: 100, zoom: 3 };
  const spot = { x: 110, y: 95 };
  const pointer = onScreen(view, SIZE, spot);
  const after = onScreen(zoomed(view, 1.5, pointer, SIZE), SIZE, spot);
  expect(after.x).toBeCloseTo(pointer.x);
  expect(after.y).toBeCloseTo(pointer.y);
});

test("a spot moves with the pointer, and the view stays on the map", () => {
  const view = { x: 100, y: 100, zoom: 3 };
  expect(onScreen(moved(view, 80, -16), SIZE, { x: 100, y: 100 })).toEqual({ x: 480, y: 284 });
  expect(moved(view, 1e6, 1e6)).toEqual({ x: 0, y: 0, zoom: 3 });
});

test("only spots that no zoom separates are one", () => {
  expect(isOneSpot([{ x: 1, y: 1 }])).toBe(true);
  expect(
    isOneSpot([
      { x: 1, y: 1 },
      { x: 1.00001, y: 1 },
    ]),
  ).toBe(true);
  expect(
    isOneSpot([
      { x: 1, y: 1 },
      { x: 1.001, y: 1 },
    ]),
  ).toBe(false);
});

test("a view survives its address to the pixel, and other texts are none", () => {
  const view = { x: 137.654321, y: 86.123456, zoom: 12.345 };
  const found = viewOfText(textOfView(view));
  if (found === undefined) throw new Error("the view was lost");
  expect(Math.abs(found.x - view.x) * 2 ** view.zoom).toBeLessThan(1);
  for (const text of ["", "1_2", "a_b_c", "1_2_3_4", "-1_2_3", "1e9_2_3"]) expect(viewOfText(text)).toBeUndefined();
});
