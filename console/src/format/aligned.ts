/**
 * Return the values of other groups at the groups of the same names, null where there are none.
 *
 * Of groups that share a name, such as the hour that repeats when clocks change, each has its own value.
 */
export function aligned(
  names: readonly string[],
  otherNames: readonly string[],
  values: readonly (number | null)[],
): (number | null)[] {
  const found = new Map(numbered(otherNames).map((name, index) => [name, values[index] ?? null]));
  return numbered(names).map((name) => found.get(name) ?? null);
}

/** Return names that are different: the second of two equal ones has the number 2. */
function numbered(names: readonly string[]): string[] {
  const counts = new Map<string, number>();
  return names.map((name) => {
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    return `${name} ${count}`;
  });
}
