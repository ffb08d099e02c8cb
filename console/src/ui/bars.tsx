import { energy } from "../format/quantities";
import { useLocale } from "../i18n";
import { useShownTheme } from "../theme";
import { colourOf } from "./colours";

export interface BarSeries {
  label: string;
  /** Kilowatt-hours in each group; null where nothing was measured. */
  values: (number | null)[];
}

const WIDTH = 960;
const HEIGHT = 280;
const LEFT = 72;
const BOTTOM = 26;
const STEPS = [1, 2, 5, 10];

/** Groups of bars, one for each bucket. The table beside it has the sums. */
export function Bars({ groups, series, label }: { groups: string[]; series: BarSeries[]; label: string }) {
  const locale = useLocale();
  const theme = useShownTheme();
  const most = Math.max(0, ...series.flatMap(({ values }) => values.map((value) => value ?? 0)));
  const lines = gridLines(most);
  const top = lines.at(-1) ?? 1;
  const y = (value: number) => (HEIGHT - BOTTOM) * (1 - value / top) + 6;
  const group = (WIDTH - LEFT) / groups.length;
  const bar = (0.8 * group) / series.length;
  const every = Math.ceil(groups.length / 16);
  return (
    <svg className="bars" viewBox={`0 0 ${WIDTH} ${HEIGHT + 12}`} role="img" aria-label={label}>
      {lines.map((line) => (
        <g key={line}>
          <line x1={LEFT} x2={WIDTH} y1={y(line)} y2={y(line)} className="grid-line" />
          <text x={LEFT - 8} y={y(line) + 4} textAnchor="end">
            {energy(line, locale)}
          </text>
        </g>
      ))}
      {groups.map((name, index) => (
        // The hour that repeats when clocks change has the same name.
        <g key={`${index} ${name}`} transform={`translate(${LEFT + index * group + 0.1 * group} 0)`}>
          {series.map(({ label: of, values }, place) => {
            const value = values[index] ?? 0;
            return (
              <rect
                key={of}
                x={place * bar}
                width={Math.max(1, bar - 1)}
                y={y(value)}
                height={y(0) - y(value)}
                fill={colourOf(place, theme)}
              >
                <title>{`${name} · ${of}: ${energy(values[index] ?? 0, locale)}`}</title>
              </rect>
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

/** Return the values of up to six grid lines from 0 on, at round distances; the last one is at or above `most`. */
function gridLines(most: number): number[] {
  if (most <= 0) return [0, 1];
  const rough = most / 5;
  const magnitude = 10 ** Math.floor(Math.log10(rough));
  const step = magnitude * (STEPS.find((one) => one * magnitude >= rough) ?? 10);
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, index) => index * step);
}
