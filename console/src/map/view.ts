/** What part of the world a map shows. Units of the map: the world is a square whose side is `WORLD`. */

export const WORLD = 256;
const LEAST_ZOOM = 0;
const MOST_ZOOM = 14;
/** Zoom at which a single place is shown first: a country with its neighbours. */
const ZOOM_OF_ONE = 6;
const MARGIN = 48;

/** `x` and `y` are the middle in units of the map; a unit is 2 to the power of `zoom` pixels wide. */
export interface View {
  x: number;
  y: number;
  zoom: number;
}

export interface Size {
  width: number;
  height: number;
}

export interface Spot {
  x: number;
  y: number;
}

/** Return how many pixels a unit of the map is wide. */
export function scaleOf({ zoom }: View): number {
  return 2 ** zoom;
}

/** Return where a spot of the map is on the screen, in pixels from its corner. */
export function onScreen(view: View, size: Size, { x, y }: Spot): Spot {
  const scale = scaleOf(view);
  return { x: size.width / 2 + (x - view.x) * scale, y: size.height / 2 + (y - view.y) * scale };
}

/** Return the view after the map was moved by pixels: to the right and down. */
export function moved(view: View, right: number, down: number): View {
  const scale = scaleOf(view);
  return limited({ ...view, x: view.x - right / scale, y: view.y - down / scale });
}

/** Return the view with another zoom, in which the spot below `at`, in pixels, stays where it is. */
export function zoomed(view: View, by: number, at: Spot, size: Size): View {
  const zoom = Math.min(MOST_ZOOM, Math.max(LEAST_ZOOM, view.zoom + by));
  const right = at.x - size.width / 2;
  const down = at.y - size.height / 2;
  const difference = 1 / scaleOf(view) - 1 / 2 ** zoom;
  return limited({ x: view.x + right * difference, y: view.y + down * difference, zoom });
}

/** Return whether the view cannot show anything larger. */
export function isNearest({ zoom }: View): boolean {
  return zoom >= MOST_ZOOM;
}

/** Return whether spots are at most a pixel apart in the nearest view. */
export function isOneSpot(spots: readonly Spot[]): boolean {
  const [first] = spots;
  return spots.every(({ x, y }) => first && Math.hypot(x - first.x, y - first.y) * 2 ** MOST_ZOOM <= 1);
}

/** Return the view that shows all spots; the world if there are none. */
export function viewOf(spots: readonly Spot[], size: Size): View {
  if (spots.length === 0) return { x: WORLD / 2, y: WORLD / 2, zoom: 1 };
  let [left, right, top, bottom] = [WORLD, 0, WORLD, 0];
  for (const { x, y } of spots) {
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  }
  const fits = Math.min(
    Math.max(1, size.width - 2 * MARGIN) / (right - left),
    Math.max(1, size.height - 2 * MARGIN) / (bottom - top),
  );
  const zoom = Number.isFinite(fits) ? Math.min(MOST_ZOOM, Math.log2(fits)) : ZOOM_OF_ONE;
  return limited({ x: (left + right) / 2, y: (top + bottom) / 2, zoom });
}

function limited({ x, y, zoom }: View): View {
  return {
    x: Math.min(WORLD, Math.max(0, x)),
    y: Math.min(WORLD, Math.max(0, y)),
    zoom: Math.min(MOST_ZOOM, Math.max(LEAST_ZOOM, zoom)),
  };
}

/** Return the text of a view for an address: middle and zoom, as exact as a pixel. */
export function textOfView({ x, y, zoom }: View): string {
  const digits = Math.ceil(zoom / 3);
  return [x.toFixed(digits), y.toFixed(digits), zoom.toFixed(2)].join("_");
}

/** Return the view of a text; undefined for what is none. */
export function viewOfText(text: string): View | undefined {
  if (!/^\d{1,3}(\.\d{1,6})?_\d{1,3}(\.\d{1,6})?_\d{1,2}(\.\d{1,2})?$/.test(text)) return undefined;
  const [x = 0, y = 0, zoom = 0] = text.split("_").map(Number);
  return limited({ x, y, zoom });
}
