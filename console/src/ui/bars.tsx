import { type ComponentProps, useEffect, useRef, useState } from "react";
import { energies } from "../format/energy-axis";
import { energy } from "../format/quantities";
import { useLocale } from "../i18n";
import { useShownTheme } from "../theme";
import { colourOf } from "./colours";

export interface BarSeries {
  label: string;
  /** Kilowatt-hours in each group; null where nothing was measured. */
  values: (number | null)[];
  /** What the values are compared with, in the same groups. */
  before?: { label: string; values: (number | null)[] } | undefined;
  /** Index of the bar of each group that the series is a part of. Parts are stacked in the order of the series. */
  bar: number;
}

/** Width of the drawing in pixels until its element is measured. */
const FIRST_WIDTH = 960;
const HEIGHT = 280;
const LEFT = 72;
const BOTTOM = 26;
/** Pixels between the names of groups. */
const NAME = 56;
const STEPS = [1, 2, 5, 10];

/** The part of its width that a bar leaves free at each side for the outline of the bar behind it. */
const INSET = 0.2;

/**
 * Groups of stacked bars, one group for each bucket; each bar is before a pale outlined one if there is a comparison. The table
 * beside it has the sums.
 */
export function Bars({ groups, series, label }: { groups: string[]; series: BarSeries[]; label: string }) {
  const locale = useLocale();
  const theme = useShownTheme();
  const drawing = useRef<SVGSVGElement>(null);
  const [width, setWidth] = useState(FIRST_WIDTH);
  useEffect(() => {
    // Drawn in pixels of the screen: names scaled to the width of a phone would be unreadable.
    const observer = new ResizeObserver(([entry]) => setWidth(Math.round(entry?.contentRect.width || FIRST_WIDTH)));
    if (drawing.current) observer.observe(drawing.current);
    return () => observer.disconnect();
  }, []);
  const bars = 1 + Math.max(...series.map(({ bar }) => bar));
  const stacks = groups.flatMap((_, index) => series.map((_, position) => stackOf(series, position, index)));
  const most = Math.max(0, ...stacks.flatMap(({ now, before }) => [now.end, before.end]));
  const lines = gridLines(most);
  const top = lines.at(-1) ?? 1;
  const y = (value: number) => (HEIGHT - BOTTOM) * (1 - value / top) + 6;
  const placeOf = ({ start, end }: Part) => ({ y: y(end), height: y(start) - y(end) });
  const labels = energies(lines, locale);
  const group = (width - LEFT) / groups.length;
  const wide = (0.8 * group) / bars;
  const every = Math.ceil(NAME / group);
  return (
    <svg
      ref={drawing}
      className="bars"
      viewBox={`0 0 ${width} ${HEIGHT + 12}`}
      height={HEIGHT + 12}
      role="img"
      aria-label={label}
    >
      {lines.map((line, index) => (
        <g key={line}>
          <line x1={LEFT} x2={width} y1={y(line)} y2={y(line)} className="grid-line" />
          <text x={LEFT - 8} y={y(line) + 4} textAnchor="end">
            {labels[index]}
          </text>
        </g>
      ))}
      {groups.map((name, index) => (
        // The hour that repeats when clocks change has the same name.
        <g key={`${index} ${name}`} transform={`translate(${LEFT + index * group + 0.1 * group} 0)`}>
          {series.map(({ label: of, values, before, bar }, position) => {
            const inset = before === undefined ? 0 : INSET * wide;
            const colour = colourOf(position, theme);
            const part = stacks[index * series.length + position];
            if (part === undefined) return null;
            return (
              <g key={of} transform={`translate(${bar * wide} 0)`}>
                {before !== undefined && (
                  <Bar
                    {...placeOf(part.before)}
                    width={Math.max(2, wide - 1)}
                    fill={`${colour}30`}
                    stroke={colour}
                    // A full line at both sides would fill a bar of a few pixels.
                    strokeWidth={Math.min(1, wide / 8)}
                    title={`${name} · ${of} · ${before.label}: ${energy(before.values[index], locale)}`}
                  />
                )}
                <Bar
                  {...placeOf(part.now)}
                  x={inset}
                  width={Math.max(1, wide - 1 - 2 * inset)}
                  fill={colour}
                  title={`${name} · ${of}: ${energy(values[index], locale)}`}
                />
              </g>
            );
          })}
          {index % every === 0 && (
            <text x={0.4 * group} y={HEIGHT + 4} textAnchor="middle">
              {name}
            </text>
          )}
        </g>
      ))}
    </svg>
  );
}

/** Where a part of a bar begins and ends, in kilowatt-hours. */
interface Part {
  start: number;
  end: number;
}

/** Return the places of a series in its bar of a group: above the series before it. What was not measured has no height. */
function stackOf(series: BarSeries[], position: number, group: number): { now: Part; before: Part } {
  const bar = series[position]?.bar;
  const below = series.slice(0, position).filter((one) => one.bar === bar);
  const sumOf = (some: BarSeries[]) => ({
    now: some.reduce((sum, { values }) => sum + (values[group] ?? 0), 0),
    before: some.reduce((sum, { before }) => sum + (before?.values[group] ?? 0), 0),
  });
  const [start, end] = [sumOf(below), sumOf(series.slice(position, position + 1).concat(below))];
  return { now: { start: start.now, end: end.now }, before: { start: start.before, end: end.before } };
}

/** A part of a bar, with a text on hover. */
function Bar({ title, ...shape }: ComponentProps<"rect"> & { title: string }) {
  return (
    <rect {...shape}>
      <title>{title}</title>
    </rect>
  );
}

/** Return the values of up to six grid lines from 0 on, at round distances; the last one is at or above `most`. */
function gridLines(most: number): number[] {
  if (most <= 0) return [0, 1];
  const rough = most / 5;
  const magnitude = 10 ** Math.floor(Math.log10(rough));
  const step = magnitude * (STEPS.find((one) => one * magnitude >= rough) ?? 10);
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, index) => index * step);
}
