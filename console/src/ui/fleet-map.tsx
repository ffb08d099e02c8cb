import { type KeyboardEvent, type PointerEvent, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { count } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { type Atlas, countryName } from "../map/atlas";
import { clustersOf, type Point } from "../map/clusters";
import { draw, markAt } from "../map/drawing";
import { isNearest, isOneSpot, moved, type Size, type Spot, type View, viewOf, zoomed } from "../map/view";
import { useShownTheme } from "../theme";

interface Props {
  atlas: Atlas;
  points: readonly Point[];
  /** What is shown first; undefined shows all points. */
  start: View | undefined;
  label: string;
  /** Called some time after the user has moved the map; undefined: all points are shown. */
  onView: (view: View | undefined) => void;
  /** Called with the plants of a mark that no larger zoom would divide, and with none for a place without a mark. */
  onChoose: (points: readonly Point[]) => void;
}

const STEP = 80;
const ARROWS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [STEP, 0],
  ArrowRight: [-STEP, 0],
  ArrowUp: [0, STEP],
  ArrowDown: [0, -STEP],
};
/** Pixels that a finger may move while it chooses. */
const STILL = 6;
/** Milliseconds without a move after which the view is kept. */
const REST = 400;

/** Plants on a map without tiles: near ones are one mark, whose ring shows the share of the troubled. */
export function FleetMap({ atlas, points, start, label, onView, onChoose }: Props) {
  const texts = useTexts();
  const locale = useLocale();
  const theme = useShownTheme();
  const canvas = useRef<HTMLCanvasElement>(null);
  const size = useSize(canvas);
  const [isOver, setIsOver] = useState(false);
  const pointers = useRef(new Map<number, Spot>());
  const travelled = useRef(0);
  const [chosen, setChosen] = useState(start);
  const view = useMemo(() => chosen ?? viewOf(points, size), [chosen, points, size]);
  const change = (next: (view: View) => View) => setChosen((before) => next(before ?? view));
  const middle = { x: size.width / 2, y: size.height / 2 };
  // Marks are the same over half a zoom level: they do not dance while the zoom changes.
  const level = Math.round(2 * view.zoom) / 2;
  const clusters = useMemo(() => clustersOf(points, 2 ** level), [points, level]);
  const names = useMemo(() => atlas.countries.map((country) => countryName(country, locale)), [atlas, locale]);

  const keep = useRef(onView);
  keep.current = onView;
  useEffect(() => {
    const timer = setTimeout(() => keep.current(chosen), REST);
    return () => clearTimeout(timer);
  }, [chosen]);

  // The drawing reads its colours from the page, which has others in another theme.
  useLayoutEffect(() => {
    if (canvas.current !== null) draw(canvas.current, size, view, atlas, names, clusters, (one) => count(one, locale));
  }, [size, view, atlas, names, clusters, locale, theme]);

  // React listens passively to the wheel: the page would be moved too.
  const turn = useRef<(event: WheelEvent) => void>(() => undefined);
  turn.current = (event) => {
    event.preventDefault();
    const by = -event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 0.003 : 0.1);
    change((before) => zoomed(before, by, spotOf(event), size));
  };
  useEffect(() => {
    const element = canvas.current;
    const listener = (event: WheelEvent) => turn.current(event);
    element?.addEventListener("wheel", listener, { passive: false });
    return () => element?.removeEventListener("wheel", listener);
  }, []);

  const press = (event: PointerEvent<HTMLCanvasElement>) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    if (pointers.current.size === 0) travelled.current = 0;
    pointers.current.set(event.pointerId, spotOf(event.nativeEvent));
  };
  const drag = (event: PointerEvent<HTMLCanvasElement>) => {
    const spot = spotOf(event.nativeEvent);
    const before = pointers.current.get(event.pointerId);
    if (before === undefined) {
      setIsOver(markAt(clusters, view, size, spot) !== undefined);
      return;
    }
    pointers.current.set(event.pointerId, spot);
    travelled.current += Math.hypot(spot.x - before.x, spot.y - before.y);
    const other = [...pointers.current].find(([id]) => id !== event.pointerId)?.[1];
    if (other !== undefined) {
      const by = Math.log2(distance(spot, other) / Math.max(1, distance(before, other)));
      const between = { x: (spot.x + other.x) / 2, y: (spot.y + other.y) / 2 };
      change((shown) => zoomed(shown, by, between, size));
    } else if (travelled.current > STILL) {
      change((shown) => moved(shown, spot.x - before.x, spot.y - before.y));
    }
  };
  const release = (event: PointerEvent<HTMLCanvasElement>) => {
    const wasPressed = pointers.current.delete(event.pointerId);
    if (!wasPressed || event.type === "pointercancel" || travelled.current > STILL) return;
    const mark = markAt(clusters, view, size, spotOf(event.nativeEvent));
    if (mark === undefined) onChoose([]);
    else if (isNearest(view) || isOneSpot(mark.points)) onChoose(mark.points);
    else change(() => viewOf(mark.points, size));
  };
  const type = (event: KeyboardEvent) => {
    const arrow = ARROWS[event.key];
    if (arrow !== undefined) change((before) => moved(before, ...arrow));
    else if (event.key === "+") change((before) => zoomed(before, 1, middle, size));
    else if (event.key === "-") change((before) => zoomed(before, -1, middle, size));
    else return;
    event.preventDefault();
  };
  return (
    <div className="map">
      {/* biome-ignore lint/a11y/noInteractiveElementToNoninteractiveRole: its keys move the map, as those of an application */}
      <canvas
        ref={canvas}
        className={isOver ? "over" : undefined}
        role="application"
        aria-label={label}
        tabIndex={0}
        onPointerDown={press}
        onPointerMove={drag}
        onPointerUp={release}
        onPointerCancel={release}
        onKeyDown={type}
      />
      <div className="map-buttons">
        <button
          type="button"
          aria-label={texts.map.nearer}
          onClick={() => change((before) => zoomed(before, 1, middle, size))}
        >
          +
        </button>
        <button
          type="button"
          aria-label={texts.map.farther}
          onClick={() => change((before) => zoomed(before, -1, middle, size))}
        >
          −
        </button>
        <button type="button" onClick={() => setChosen(undefined)}>
          {texts.map.all}
        </button>
      </div>
    </div>
  );
}

function distance(one: Spot, other: Spot): number {
  return Math.hypot(one.x - other.x, one.y - other.y);
}

/** Return where a pointer is, from the corner of its element. */
function spotOf({ offsetX, offsetY }: MouseEvent): Spot {
  return { x: offsetX, y: offsetY };
}

function useSize(element: { current: HTMLElement | null }): Size {
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const observed = element.current;
    if (observed === null) return;
    const measure = () => setSize({ width: observed.clientWidth, height: observed.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(observed);
    return () => observer.disconnect();
  }, [element]);
  return size;
}
