import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { aloneIn, joined } from "../format/gaps";
import { number } from "../format/quantities";
import { thinned } from "../format/thinned";
import { axisLabels } from "../format/times";
import { useLocale } from "../i18n";
import { type Columns, MOST_UNITS, type Range } from "../plants";
import { useShownTheme } from "../theme";
import { type Level, levelsIn, type Mark, overlay } from "./chart-overlay";
import { touchSelection } from "./chart-touch";
import { colourOf } from "./colours";

const HEIGHT = 340;

interface Props {
  columns: Columns;
  timeZone: string;
  label: string;
  /** Called with the part of the time axis that the user selected; without it, nothing can be selected. */
  onZoom?: (range: Range) => void;
  /** What happened in the range. A list beside the chart has the same for readers who cannot see it. */
  marks?: readonly Mark[];
  levels?: readonly Level[];
}

const NOTHING: readonly never[] = [];

/** Averages as lines over the band between minimum and maximum. A line ends where values are missing for longer than usual. */
export function Chart({ columns, timeZone, label, onZoom, marks = NOTHING, levels = NOTHING }: Props) {
  const element = useRef<HTMLDivElement>(null);
  const zoom = useRef(onZoom);
  zoom.current = onZoom;
  const locale = useLocale();
  const theme = useShownTheme();
  useEffect(() => {
    const parent = element.current;
    if (parent === null) return;
    const plot = new uPlot(
      {
        ...options(columns, timeZone, locale, theme, parent.clientWidth, zoom, levels),
        plugins: [overlay(marks, levels), ...(zoom.current === undefined ? [] : [touchSelection()])],
      },
      // Not the chart's own width: it may grow later, and is 0 while the chart is hidden.
      dataOf(columns, screen.width * devicePixelRatio),
      parent,
    );
    const observer = new ResizeObserver(() => plot.setSize({ width: parent.clientWidth, height: HEIGHT }));
    observer.observe(parent);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [columns, timeZone, locale, theme, marks, levels]);
  return <div ref={element} className="chart" role="img" aria-label={label} />;
}

function dataOf(all: Columns, pixels: number): uPlot.AlignedData {
  const { times, columns } = thinned(all, pixels);
  return [
    times.map((time) => Date.parse(time) / 1000),
    ...columns.flatMap(({ average, min, max }) => [average, min, max].map(joined)),
  ];
}

function options(
  columns: Columns,
  timeZone: string,
  locale: string,
  theme: "light" | "dark",
  width: number,
  zoom: { current: ((range: Range) => void) | undefined },
  levels: readonly Level[],
): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const text = style.getPropertyValue("--text-soft");
  const line = style.getPropertyValue("--line");
  const units = [...new Set(columns.columns.map(({ unit }) => unit ?? ""))];
  const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  return {
    width,
    height: HEIGHT,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), timeZone),
    legend: { show: false },
    // The marked range is loaded anew with narrower buckets, instead of a larger picture of the same ones.
    cursor: { drag: { x: zoom.current !== undefined, y: false, setScale: false }, points: { show: false } },
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width: marked } = plot.select;
          if (marked < 4) return;
          const time = (x: number) => new Date(plot.posToVal(x, "x") * 1000).toISOString();
          zoom.current?.({ from: time(left), to: time(left + marked) });
        },
      ],
    },
    scales: Object.fromEntries(units.map((unit) => [`y-${unit}`, { range: rangeWith(levelsIn(levels, unit)) }])),
    axes: [
      {
        ...axis,
        values: (_: uPlot, times: number[], __: number, ___: number, distance: number) =>
          axisLabels(times, distance, timeZone, locale),
      },
      ...units.slice(0, MOST_UNITS).map((unit, index) => ({
        ...axis,
        scale: `y-${unit}`,
        side: index === 0 ? 3 : 1,
        size: 70,
        grid: index === 0 ? axis.grid : { show: false },
        values: (_: uPlot, values: number[]) => values.map((value) => `${number(value, locale, 4)} ${unit}`.trim()),
      })),
    ],
    series: [
      {},
      ...columns.columns.flatMap(({ metric, unit }, index) => {
        const scale = `y-${unit ?? ""}`;
        const stroke = colourOf(index, theme);
        return [
          { label: metric, scale, stroke, width: 1.5, spanGaps: false, points: { filter: pointsOf } },
          { scale, stroke: "transparent", points: { show: false } },
          { scale, stroke: "transparent", points: { show: false } },
        ];
      }),
    ],
    bands: columns.columns.map((_, index) => ({
      series: [3 * index + 3, 3 * index + 2] as [number, number],
      fill: `${colourOf(index, theme)}30`,
    })),
  };
}

/** Return which values are drawn as points: all of a short chart, in a long one those that no line shows. */
function pointsOf({ data }: uPlot, series: number, areAllShown: boolean): number[] | null {
  return areAllShown ? null : aloneIn(data[series] ?? []);
}

/** Return the range of a scale that shows all values, and the levels. */
function rangeWith(levels: number[]): uPlot.Scale.Range {
  return (_, min: number | null, max: number | null) => {
    const values = [min, max, ...levels].filter((value) => value !== null);
    return values.length === 0 ? [null, null] : uPlot.rangeNum(Math.min(...values), Math.max(...values), 0.1, true);
  };
}
