/** Two values that are up to this many usual distances apart have no gap between them. */
const TOLERANCE = 2.5;

/**
 * Distinguish gaps from buckets that are narrower than the plant's usual interval.
 *
 * @param values Values of equal buckets; null where there is none.
 * @returns The same, with undefined instead of null where a line should join the values around it.
 */
export function joined(values: readonly (number | null)[]): (number | null | undefined)[] {
  const result: (number | null | undefined)[] = values.slice();
  if (!values.includes(null)) return result;
  const known = [...values.keys()].filter((index) => values[index] !== null);
  const distances = known.slice(1).map((index, number) => index - (known[number] as number));
  const most = TOLERANCE * ([...distances].sort((one, other) => one - other)[(distances.length - 1) >> 1] ?? 1);
  distances.forEach((distance, number) => {
    const start = known[number] as number;
    if (distance > 1 && distance <= most) result.fill(undefined, start + 1, start + distance);
  });
  return result;
}

/** Return the indexes of values between two gaps: no line shows them. `values` are as `joined` returns them. */
export function aloneIn(values: ArrayLike<number | null | undefined>): number[] {
  const isGap = (index: number) => index < 0 || index >= values.length || values[index] === null;
  const found: number[] = [];
  for (let index = 0; index < values.length; index++) {
    if (typeof values[index] === "number" && isGap(index - 1) && isGap(index + 1)) found.push(index);
  }
  return found;
}
