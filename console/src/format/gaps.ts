/** Two values that are up to this many usual distances apart have no gap between them. */
const TOLERANCE = 2.5;

/**
 * Distinguish gaps from buckets that are narrower than the plant's usual interval.
 *
 * @param values Values of equal buckets; null where there is none.
 * @returns The same, with undefined instead of null where a line should join the values around it.
 */
export function joined(values: readonly (number | null)[]): (number | null | undefined)[] {
  const known = values.flatMap((value, index) => (value === null ? [] : [index]));
  const distances = known.slice(1).map((index, number) => index - (known[number] as number));
  const usual = [...distances].sort((a, b) => a - b)[(distances.length - 1) >> 1] ?? 1;
  const result: (number | null | undefined)[] = [...values];
  distances.forEach((distance, number) => {
    const start = known[number] as number;
    if (distance <= TOLERANCE * usual) result.fill(undefined, start + 1, start + distance);
  });
  return result;
}

/** Return the indexes of values between two gaps: no line shows them. `values` are as `joined` returns them. */
export function aloneIn(values: ArrayLike<number | null | undefined>): number[] {
  const isGap = (index: number) => index < 0 || index >= values.length || values[index] === null;
  return Array.from(values).flatMap((value, index) =>
    typeof value === "number" && isGap(index - 1) && isGap(index + 1) ? [index] : [],
  );
}
