import type { Columns, Range } from "../plants";

type Values = Columns["columns"][number]["average"];

interface Totals {
  mean: number;
  least: number;
  greatest: number;
}

/** Return what the values from one index to another have in common; undefined if all are missing. */
export function totalsOf(values: Values, start = 0, end = values.length): Totals | undefined {
  // A loop: a column may have 100,000 values.
  let [sum, count, least, greatest] = [0, 0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (let index = start; index < end && index < values.length; index++) {
    const value = values[index] as number | null;
    if (value === null) continue;
    sum += value;
    count += 1;
    if (value < least) least = value;
    if (value > greatest) greatest = value;
  }
  return count === 0 ? undefined : { mean: sum / count, least, greatest };
}

/**
 * Return the mean of a range from the averages of its buckets; undefined if all are missing. A bucket that begins before the range
 * or ends after it counts less.
 *
 * @param times Starts of the buckets.
 * @param width Milliseconds of a bucket.
 */
export function meanIn({ from, to }: Range, times: string[], width: number, averages: Values): number | undefined {
  const last = times.length - 1;
  let [sum, total] = [0, 0];
  for (let index = 0; index <= last; index++) {
    const average = averages[index] as number | null;
    if (average === null) continue;
    let weight = width;
    if (index === 0 || index === last) {
      // The range can cut no other. To read each of 100,000 times takes longer than to draw them.
      const begin = Date.parse(times[index] as string);
      weight = Math.min(begin + width, Date.parse(to)) - Math.max(begin, Date.parse(from));
    }
    sum += average * weight;
    total += weight;
  }
  return total === 0 ? undefined : sum / total;
}

/**
 * Merge neighbouring buckets of a chart until at most `pixels` are left. With as many as the screen has, it looks the same, and
 * is drawn several times as fast.
 */
export function thinned({ times, columns, ...others }: Columns, pixels: number): Columns {
  const size = Math.ceil(times.length / pixels) || 1;
  const starts = times.filter((_, index) => index % size === 0);
  const merged = (values: Values, total: keyof Totals) =>
    starts.map((_, index) => totalsOf(values, index * size, (index + 1) * size)?.[total] ?? null);
  return {
    ...others,
    times: starts,
    columns: columns.map((column) => ({
      ...column,
      average: merged(column.average, "mean"),
      min: merged(column.min, "least"),
      max: merged(column.max, "greatest"),
    })),
  };
}
